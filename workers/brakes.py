"""Counts what the brakes go by: in the store, and on GitHub only where the store says "many"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from app.brakes import Counts, Limits
from app.github.gateway import GitHubGateway
from app.github.open_pulls import count_open_pulls
from app.intents import PullFacts
from app.rounds import in_a_row
from app.settings import Settings
from app.store import reading, tallies
from workers.rounds import round_of
from workers.services import Services

HOUR = timedelta(hours=1)


def limits_of(settings: Settings) -> Limits:
    """Return what the operator lets be started. Pure."""
    return Limits(
        rounds=settings.max_rounds,
        repo_hour=settings.max_runs_repo_hour,
        user_hour=settings.max_runs_user_hour,
        open_pulls=settings.max_open_pulls,
    )


@dataclass(frozen=True)
class BrakeLookups:
    """What counts against one more run, except those that `trigger` asked for itself."""

    services: Services
    gateway: GitHubGateway
    repo_id: int
    trigger: str

    def counts(self, user_id: int, pull: PullFacts | None) -> Counts:
        """Errors: GitHubError."""
        since = self.services.clock() - HOUR
        with reading(self.services.engine) as session:
            repo_hour = tallies.of_repo(session, self.repo_id, since, self.trigger)
            user_hour = tallies.of_user(session, user_id, since, self.trigger)
        return Counts(
            rounds=self._rounds(pull) if pull is not None else 0,
            repo_hour=repo_hour,
            user_hour=user_hour,
            open_pulls=self._open_pulls() if pull is None else 0,
        )

    def _rounds(self, pull: PullFacts) -> int:
        with reading(self.services.engine) as session:
            found = tallies.of_pull(session, self.repo_id, pull.number, self.trigger)
        rounds = map(round_of, found)
        return in_a_row(rounds, pull.head_sha, lambda each: each.by_check or each.by_bot)

    def _open_pulls(self) -> int:
        """Only runs open them: fewer than the limit in all times cannot be too many now."""
        with reading(self.services.engine) as session:
            ever = tallies.pulls_opened(session, self.repo_id, self.trigger)
        if ever < self.services.settings.max_open_pulls:
            return ever
        return count_open_pulls(self.gateway, self.services.bot_login)
