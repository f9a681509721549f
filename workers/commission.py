"""From a decision to a queued run: the brief is frozen from what GitHub says at this moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from app.brief import Brief, BriefComment, BriefInput, BriefRemark, freeze_brief
from app.ci import FAILED
from app.commands import parse_commands
from app.events import IssueRef, PullRef, RepoEvent
from app.github.failures import failed_checks
from app.github.gateway import GitHubGateway
from app.github.values import CommentInfo, FailedCheck, IssueInfo
from app.intents import Remark, StartRun, UndoPush
from app.policy import permission_rank
from app.repo_config import RepoConfig
from app.rounds import is_ci
from app.store import (
    AlreadyActive,
    AlreadyCreated,
    Delivery,
    NewRun,
    Run,
    TargetKind,
    reading,
    runs,
    writing,
)
from workers.failures import MAX_SHOWN, shown_failures
from workers.lookups import least_of
from workers.services import Services
from workers.threads import remarks_in

# Each author costs a question to GitHub; the hour's limit is shared by all repositories.
MAX_AUTHORS = 20
_INSIDERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})


Issue = IssueRef | PullRef | IssueInfo
Created = Run | AlreadyActive | AlreadyCreated


@dataclass(frozen=True)
class Commission:
    """Queues the runs that one delivery asks for, each once: `index` is its place among them."""

    services: Services
    gateway: GitHubGateway
    delivery: Delivery
    event: RepoEvent
    trigger: str
    config: RepoConfig

    def run(self, intent: StartRun, index: int) -> Created:
        """Freeze the brief and queue the run. Errors: GitHubError."""
        issue = issue_at_command(self.gateway, self.event, intent.issue_number)
        base_ref, base_sha = starting_point(self.gateway, self.event, intent, self.config)
        remarks = intent.remarks or remarks_of(self.services, intent.retry_of)
        brief = self._brief(intent, issue, (base_ref, base_sha or ""), remarks)
        new = replace(
            self._asked(intent, index, issue.number, issue.title),
            instruction=intent.instruction,
            base_ref=base_ref,
            base_sha=base_sha,
            remarks=tuple(asdict(remark) for remark in remarks),
            model=intent.options.model or self.config.model or self.services.settings.model,
            brief_text=brief.text,
            brief_sha256=brief.sha256,
        )
        return self._create(new)

    def undo(self, intent: UndoPush, index: int) -> Created:
        """Queue the run that takes a push back; it needs no brief, and no machine."""
        asked = self._asked(intent, index, intent.pull.number, intent.pull.title)
        return self._create(replace(asked, undoes=intent.run_id))

    def _brief(
        self, intent: StartRun, issue: Issue, base: tuple[str, str], remarks: tuple[Remark, ...]
    ) -> Brief:
        # When it was said, not when we heard of it: a delivery may come hours late.
        at, base_ref, base_sha = self.event.at or self.delivery.received_at, *base
        failed = intent.failed or failed_again(self.services, self.gateway, intent)
        return freeze_brief(
            BriefInput(
                repo=self.event.repo.full_name,
                issue_number=issue.number,
                title=issue.title,
                body=issue.body,
                author=issue.author,
                asked_by=intent.asked_by.login,
                base_ref=base_ref,
                base_sha=base_sha,
                instruction=intent.instruction,
                comments=admitted(self.services, self.gateway, at, intent, self.config),
                remarks=tuple(shown_remark(remark) for remark in remarks),
                is_pull=intent.pull is not None,
                failures=shown_failures(self.gateway, failed),
                more_failures=max(0, len(failed) - MAX_SHOWN),
            )
        )

    def _asked(self, intent: StartRun | UndoPush, index: int, number: int, title: str) -> NewRun:
        """Return who asked for a run and where; one on a pull request begins at its head."""
        pull = intent.pull
        new = NewRun(
            repo_id=self.event.repo.id,
            repo=self.event.repo.full_name,
            installation_id=self.event.installation_id,
            issue_number=number,
            issue_title=title,
            asked_by=intent.asked_by.login,
            asked_by_id=intent.asked_by.id,
            trigger_delivery_id=self.trigger,
            trigger_index=index,
            trigger_comment_id=intent.comment_id,
        )
        if pull is None:
            return new
        return replace(
            new,
            target=TargetKind.PULL_REQUEST,
            base_ref=pull.head_ref,
            base_sha=pull.head_sha,
            branch=pull.head_ref,
            pull_number=pull.number,
            pull_url=pull.url,
        )

    def _create(self, new: NewRun) -> Created:
        with writing(self.services.engine) as session:
            return runs.create(session, new, self.services.clock())


def starting_point(
    gateway: GitHubGateway, event: RepoEvent, intent: StartRun, config: RepoConfig
) -> tuple[str, str | None]:
    """Return the branch and commit that a run starts from: a pull request's own head, or a base."""
    if intent.pull is not None:
        return intent.pull.head_ref, intent.pull.head_sha
    base_ref = intent.options.base or config.base or event.repo.default_branch
    return base_ref, gateway.branch_sha(base_ref)


def remarks_of(services: Services, run_id: str | None) -> tuple[Remark, ...]:
    """Return the inline comments that an earlier run had to answer."""
    if run_id is None:
        return ()
    with reading(services.engine) as session:
        run = runs.get(session, run_id)
    return remarks_in(run.remarks) if run is not None else ()


def failed_again(
    services: Services, gateway: GitHubGateway, intent: StartRun
) -> tuple[FailedCheck, ...]:
    """Return the checks that fail now, where an earlier run that had to mend such is retried."""
    if intent.retry_of is None or intent.pull is None:
        return ()
    with reading(services.engine) as session:
        run = runs.get(session, intent.retry_of)
    if run is None or not is_ci(run.trigger_delivery_id):
        return ()
    return failed_checks(gateway, intent.pull.head_sha, services.github.app_id, FAILED)


def shown_remark(remark: Remark) -> BriefRemark:
    """Return an inline comment as the brief shows it. Pure."""
    first, last = remark.start_line, remark.line
    lines = "" if last is None else f"{first}-{last}" if first else str(last)
    return BriefRemark(remark.author, remark.body, remark.path, lines, remark.diff_hunk)


def issue_at_command(gateway: GitHubGateway, event: RepoEvent, number: int) -> Issue:
    """Return the issue as the signed delivery shows it: as it stood at the command.

    GitHub's present answer may have been edited since by its author. Events that carry no issue (a
    button of a check run) leave only that answer.
    """
    shown = getattr(event, "issue", None) or getattr(event, "pull", None)
    if isinstance(shown, IssueRef | PullRef) and shown.number == number:
        return shown
    return gateway.get_issue(number)


def admitted(
    services: Services,
    gateway: GitHubGateway,
    at: datetime,
    intent: StartRun,
    config: RepoConfig,
) -> tuple[BriefComment, ...]:
    """Return the comments that the model may read: by people whose permission lets them start runs
    themselves, or by anybody where the repository says so.

    As they stood when the command came: nothing written or edited later, no bot, no command.
    """
    before = [
        comment
        for comment in gateway.list_issue_comments(intent.issue_number)
        if is_candidate(comment, at, intent.comment_id)
    ]
    if config.include_comments == "all":
        return tuple(BriefComment(c.author, c.body) for c in before)
    # Who keeps a membership private is shown as a stranger, so the others are asked about too.
    likely_first = sorted(before, key=lambda c: c.author_association not in _INSIDERS)
    minimum = least_of(services.settings, config)
    trusted = trusted_authors(gateway, (c.author for c in likely_first), minimum)
    return tuple(BriefComment(c.author, c.body) for c in before if c.author in trusted)


def is_candidate(comment: CommentInfo, at: datetime, command_id: int | None) -> bool:
    """Say whether a comment could be admitted, by what it shows itself. Pure."""
    return (
        comment.id != command_id
        and comment.author_kind == "User"
        and comment.created_at <= at
        and comment.updated_at <= at
        and not parse_commands(comment.body)
    )


def trusted_authors(gateway: GitHubGateway, authors: Iterable[str], minimum: str) -> frozenset[str]:
    """Return those authors whose permission, by GitHub's API, is `minimum` or more."""
    distinct = list(dict.fromkeys(authors))[:MAX_AUTHORS]
    needed = permission_rank(minimum)
    return frozenset(
        author for author in distinct if permission_rank(gateway.permission_of(author)) >= needed
    )
