"""What is to be known when a check of somebody's fails: is it on a pull request of ours, and how
often did we try already. Nothing here changes anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.brakes import Counts
from app.ci import FAILED
from app.events import CheckCompleted
from app.github.errors import Gone, NotFound
from app.github.failures import failed_checks
from app.github.gateway import GitHubGateway
from app.github.values import FailedCheck
from app.intents import CiFacts, Facts, PullFacts
from app.repo_config import RepoConfig
from app.rounds import in_a_row
from app.store import Run, reading, tallies
from workers.brakes import BrakeLookups, limits_of
from workers.lookups import facts_of_pull, facts_of_run, facts_with_undone
from workers.rounds import round_of
from workers.services import Services


def is_of_ours(services: Services, event: CheckCompleted) -> bool:
    """Say whether any run is known that made that commit or works on its pull requests.

    Every failing check of a repository comes by here, so GitHub is not asked anything for it.
    """
    with reading(services.engine) as session:
        return bool(_runs_of(session, event, ""))


def _runs_of(session: Session, event: CheckCompleted, but_not: str) -> tuple[Run, ...]:
    """Return the runs of the check's pull request, newest first.

    GitHub names no pull request where it was opened after the check began: the commit tells then.
    """
    for number in sorted(event.check.pull_numbers):
        found = tallies.of_pull(session, event.repo.id, number, but_not)
        if found:
            return found
    made = tallies.of_head(session, event.repo.id, event.check.head_sha)
    if made is None or made.pull_number is None:
        return () if made is None else (made,)
    return tallies.of_pull(session, event.repo.id, made.pull_number, but_not)


@dataclass(frozen=True)
class CheckLookups:
    """The facts about one failed check; see `workers.lookups.Lookups`."""

    services: Services
    gateway: GitHubGateway
    event: CheckCompleted
    trigger: str
    config: RepoConfig

    def facts(self) -> Facts:
        with reading(self.services.engine) as session:
            found = _runs_of(session, self.event, self.trigger)
        active = next((run for run in found if _is_active(run)), None)
        pull = self._pull(found[0].pull_number) if found else None
        about = BrakeLookups(self.services, self.gateway, self.event.repo.id, self.trigger)
        return Facts(
            permission=None,
            active_run=facts_of_run(active) if active else None,
            last_run=facts_with_undone(self.services, found[0]) if found else None,
            pull=pull,
            ci=self._ci(found, pull) if pull is not None else None,
            counts=about.counts(found[0].asked_by_id, pull) if pull is not None else Counts(),
            limits=limits_of(self.services.settings),
            own_login=self.services.bot_login,
            app_id=self.services.github.app_id,
        )

    def _pull(self, number: int | None) -> PullFacts | None:
        if number is None:
            return None
        try:
            pull = self.gateway.get_pull(number)
        except (NotFound, Gone):
            return None
        return facts_of_pull(pull, self.event.repo, self.services.bot_login, self.config)

    def _ci(self, found: tuple[Run, ...], pull: PullFacts) -> CiFacts:
        is_on = bool(self.config.fix_ci)
        rounds = in_a_row(map(round_of, found), pull.head_sha, lambda each: each.by_check)
        # Whatever else speaks against a run, these need not be asked for then.
        failed = self._failed(pull.head_sha) if is_on else ()
        return CiFacts(is_on, self.config.fix_ci_rounds, rounds, failed)

    def _failed(self, sha: str) -> tuple[FailedCheck, ...]:
        return failed_checks(self.gateway, sha, self.services.github.app_id, FAILED)


def _is_active(run: Run) -> bool:
    """Say whether it is queued or under way; one that was told to stop pushes nothing more."""
    return not run.is_ended and run.cancel_requested_by is None
