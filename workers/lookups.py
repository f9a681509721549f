"""What deciding needs to know, asked from GitHub and the store. Nothing here changes anything."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from app.commands import Command, CommandKind, parse_commands
from app.events import (
    CheckActionRequested,
    CheckCompleted,
    CheckRerequested,
    RepoEvent,
    RepoRef,
    ReviewCommentCreated,
    ReviewSubmitted,
)
from app.github.errors import Gone, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.github.values import PullInfo, ReviewCommentInfo
from app.intents import Facts, PullFacts, Remark, ReviewFacts, RunFacts
from app.messages import refused_paths
from app.policy import TeamAnswer, least_permission, permission_rank
from app.repo_config import RepoConfig
from app.rounds import ci_trigger
from app.settings import Settings
from app.store import Delivery, Run, deliveries, reading, runs
from app.store.values import TargetKind
from workers.brakes import BrakeLookups, limits_of
from workers.reports import from_json
from workers.services import Services

# GitHub's own limit for one review is far below; a pull request that lives long has more.
MAX_REMARKS = 50


def trigger_of(delivery: Delivery, event: RepoEvent) -> str:
    """Return the word by which what was asked is known, however many deliveries it comes as.

    A review comes as one event of its own and one for each of its comments; each check that fails
    on a commit as one. A fork holds the same commits, and asks for itself.
    """
    repo_id = event.repo.id
    if isinstance(event, CheckCompleted):
        return ci_trigger(event.check.head_sha, repo_id)
    if isinstance(event, ReviewSubmitted | ReviewCommentCreated) and event.review_id is not None:
        return f"review-{event.review_id}-{repo_id}"
    return delivery.delivery_id


@dataclass(frozen=True)
class Lookups:
    """The facts about one event. `trigger` is the word for what it asks (`trigger_of`), `config`
    what its repository says.
    """

    services: Services
    gateway: GitHubGateway
    event: RepoEvent
    trigger: str
    config: RepoConfig

    def facts(self) -> Facts:
        """Ask GitHub for the actor's permission and the pull request, the store for the runs."""
        settings = self.services.settings
        active, last = self._runs()
        pull = self._pull(active or last)
        permission = self.gateway.permission_of(self.event.actor.login)
        about = BrakeLookups(self.services, self.gateway, self.event.repo.id, self.trigger)
        return Facts(
            permission=permission,
            active_run=facts_of_run(active) if active else None,
            last_run=facts_with_undone(self.services, last) if last else None,
            pull=pull,
            review=self._review(),
            undoable=self._undoable(pull),
            issue_state=self._issue_state(last),
            counts=about.counts(self.event.actor.id, pull),
            limits=limits_of(settings),
            own_login=self.services.bot_login,
            app_id=self.services.github.app_id,
            label=label_of(settings, self.config),
            min_permission=least_of(settings, self.config),
            team=self._team(permission),
            allowed_bots=settings.allowed_bots,
            models=settings.model_choices,
            allow_permission=settings.allow_permission,
        )

    def _team(self, permission: str) -> TeamAnswer | None:
        """Ask about the team that may start runs, where there is one and its answer counts."""
        allow, needed = self.config.allow or "", least_of(self.services.settings, self.config)
        if "/" not in allow or permission_rank(permission) < permission_rank(needed):
            return None
        org, _, slug = allow.partition("/")
        try:
            is_in = self.gateway.is_in_team(org, slug, self.event.actor.login)
        except NotAllowed as error:
            return TeamAnswer(allow, None, str(error))
        return TeamAnswer(allow, is_in)

    # --- runs ---------------------------------------------------------------------------------

    def _runs(self) -> tuple[Run | None, Run | None]:
        """Return the issue's active run and its newest.

        A delivery that is processed again must decide as it did the first time: what it has asked
        for by now is neither, nor is anything that came later.
        """
        with reading(self.services.engine) as session:
            number = self._number(session)
            if number is None:
                return None, None
            made = runs.first_by(session, self.trigger)
            last = self._checked(session) or runs.latest_for(
                session, self.event.repo.id, number, before=made
            )
            if made is None:
                return runs.active_for(session, self.event.repo.id, number), last
            return (last if last and self._has_stopped(session, last) else None), last

    def _has_stopped(self, session: Session, run: Run) -> bool:
        """Say whether this event, which started another one since, is what stopped that run."""
        delivery = deliveries.get(session, self.trigger)
        commands = parse_commands(getattr(self.event, "body", ""))
        asked = any(isinstance(c, Command) and c.kind is CommandKind.STOP for c in commands)
        if delivery is None or not asked or run.cancel_requested_by != self.event.actor.login:
            return False
        return run.ended_at is None or run.ended_at >= delivery.received_at

    def _checked(self, session: Session) -> Run | None:
        """Return the run that the event's check shows: its buttons are about no other."""
        if isinstance(self.event, CheckRerequested | CheckActionRequested):
            return runs.get(session, self.event.check.external_id)
        return None

    def _number(self, session: Session) -> int | None:
        """Return the number that the event is about; a check run of ours names its run."""
        if isinstance(self.event, CheckRerequested | CheckActionRequested):
            run = self._checked(session)
            ours = run is not None and run.repo_id == self.event.repo.id
            return run.issue_number if ours and run is not None else None
        about = getattr(self.event, "issue", None) or getattr(self.event, "pull", None)
        return about.number if about is not None else None

    # --- pull requests ------------------------------------------------------------------------

    def _pull(self, run: Run | None) -> PullFacts | None:
        number, of_issue = self._pull_number(run)
        if number is None:
            return None
        try:
            found = self.gateway.get_pull(number)
        except (NotFound, Gone):
            return None
        if of_issue and found.state != "open":
            return None
        pull = facts_of_pull(found, self.event.repo, self.services.bot_login, self.config)
        return replace(pull, active_run=self._active_on(number)) if of_issue else pull

    def _pull_number(self, run: Run | None) -> tuple[int | None, bool]:
        """Return the pull request to look at, and whether it is the one that an issue has."""
        pull, issue = getattr(self.event, "pull", None), getattr(self.event, "issue", None)
        if pull is not None:
            return pull.number, False
        if issue is not None and issue.is_pull_request:
            return issue.number, False
        if run is not None and run.target is TargetKind.PULL_REQUEST:
            return run.issue_number, False
        with reading(self.services.engine) as session:
            number = issue.number if issue is not None else self._number(session)
            before = runs.first_by(session, self.trigger)
            repo_id = self.event.repo.id
            made = runs.pull_of(session, repo_id, number, before) if number else None
        return made, True

    def _active_on(self, pull_number: int) -> RunFacts | None:
        with reading(self.services.engine) as session:
            active = runs.active_for(session, self.event.repo.id, pull_number)
            is_again = runs.first_by(session, self.trigger) is not None
        return facts_of_run(active) if active is not None and not is_again else None

    def _issue_state(self, run: Run | None) -> str:
        """Ask only where a check's button may start the run of an issue anew."""
        checked = isinstance(self.event, CheckRerequested | CheckActionRequested)
        if not checked or run is None or run.target is not TargetKind.ISSUE:
            return "open"
        return self.gateway.get_issue(run.issue_number).state

    def _undoable(self, pull: PullFacts | None) -> RunFacts | None:
        if pull is None:
            return None
        with reading(self.services.engine) as session:
            run = runs.undoable(session, self.event.repo.id, pull.number, pull.head_ref)
        return facts_of_run(run) if run is not None else None

    def _review(self) -> ReviewFacts | None:
        """Return the event's review with the comments that its author left in it."""
        event = self.event
        if not isinstance(event, ReviewSubmitted | ReviewCommentCreated) or event.review_id is None:
            return None
        try:
            review = self.gateway.get_review(event.pull.number, event.review_id)
            comments = self.gateway.list_review_comments(event.pull.number)
        except (NotFound, Gone):
            return None
        own = [c for c in comments if c.review_id == review.id and c.author == event.actor.login]
        remarks = tuple(remark_of(comment) for comment in own[:MAX_REMARKS])
        return ReviewFacts(review.id, review.state, review.body, remarks)


def label_of(settings: Settings, config: RepoConfig) -> str:
    """Return the label that starts runs in a repository. Pure."""
    return config.label or settings.label


def least_of(settings: Settings, config: RepoConfig) -> str:
    """Return the permission that starting runs in a repository needs. Pure."""
    may_lower, operators = settings.allow_triage, settings.min_permission
    return least_permission(config.allow, operators=operators, may_lower=may_lower)


def facts_with_undone(services: Services, run: Run) -> RunFacts:
    """Return a run as deciding sees it, with the one whose push it was to take back."""
    if run.undoes is None:
        return facts_of_run(run)
    with reading(services.engine) as session:
        undone = runs.get(session, run.undoes)
    return replace(facts_of_run(run), undoes=facts_of_run(undone) if undone else None)


def facts_of_run(run: Run) -> RunFacts:
    return RunFacts(
        run_id=run.id,
        issue_number=run.issue_number,
        state=run.state,
        asked_by=run.asked_by,
        asked_by_id=run.asked_by_id,
        head_sha=run.head_sha,
        instruction=run.instruction,
        pull_request_url=run.pull_url,
        refused_paths=refused_paths(from_json(run.report)) if run.report is not None else (),
    )


def facts_of_pull(pull: PullInfo, repo: RepoRef, own_login: str, config: RepoConfig) -> PullFacts:
    """Return a pull request as deciding sees it; one whose fork is gone is a fork's. Pure."""
    return PullFacts(
        number=pull.number,
        title=pull.title,
        url=pull.html_url,
        state=pull.state,
        head_ref=pull.head_ref,
        head_sha=pull.head_sha,
        base_ref=pull.base_ref,
        is_fork=pull.head_repo_id != repo.id,
        is_ours=pull.author.lower() == own_login.lower(),
        is_base=pull.head_ref in {repo.default_branch, config.base},
    )


def remark_of(comment: ReviewCommentInfo) -> Remark:
    """Return an inline comment as deciding sees it. Pure."""
    return Remark(
        comment_id=comment.id,
        thread_id=comment.in_reply_to or comment.id,
        author=comment.author,
        body=comment.body,
        path=comment.path,
        line=comment.line,
        start_line=comment.start_line,
        diff_hunk=comment.diff_hunk,
    )
