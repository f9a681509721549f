"""What deciding takes and gives: the facts that it needs, and what is to be done. Pure values.

Every intent carries the reason that is recorded with the delivery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from app.brakes import Brake, Counts, Limits
from app.commands import CommandError, CommandOptions
from app.events import Actor
from app.github.values import FailedCheck
from app.policy import TeamAnswer
from app.reach import Reach


class Trigger(StrEnum):
    LABEL = "label"
    COMMAND = "command"
    RETRY = "retry"
    ASSIGNMENT = "assignment"
    CHECK = "check"


class Reaction(StrEnum):
    """The contents of reactions that Drydock uses, in the API's spelling."""

    EYES = "eyes"
    ROCKET = "rocket"
    CONFUSED = "confused"


class ReactableKind(StrEnum):
    ISSUE = "issue"
    COMMENT = "comment"
    REVIEW_COMMENT = "review_comment"


@dataclass(frozen=True)
class Reactable:
    """What can be reacted to (GitHub's word). `id` is the issue's number or the comment's id."""

    kind: ReactableKind
    id: int


class MessageKey(StrEnum):
    """Replies by meaning; `app.messages.reply_body` has the words."""

    HELP = "help"
    STATUS = "status"
    ALREADY_RUNNING = "already_running"
    NOTHING_RUNNING = "nothing_running"
    NOTHING_TO_RETRY = "nothing_to_retry"
    NOT_OPEN = "not_open"
    PULL_NOT_OPEN = "pull_not_open"
    NOT_BY_LABEL = "not_by_label"
    NOTHING_TO_UNDO = "nothing_to_undo"
    COMMAND_ERROR = "command_error"
    NOTHING_TO_ALLOW = "nothing_to_allow"
    MAY_NOT_ALLOW = "may_not_allow"
    BUNDLE_GONE = "bundle_gone"
    ASK_FIRST = "ask_first"
    FORK = "fork"
    BASE_HEAD = "base_head"
    HAS_PULL = "has_pull"
    CONTINUES_THERE = "continues_there"
    CI_ROUNDS = "ci_rounds"
    BRAKE = "brake"


@dataclass(frozen=True)
class RunFacts:
    """A run on the same issue as the store knows it. `state` is a `RunState` value.

    `refused_paths` are those that the gate refused and a person may let through. `head_sha` is what
    it pushed, or is about to push. `undoes` is the run whose push it was to take back.
    """

    run_id: str
    issue_number: int
    state: str
    asked_by: str = ""
    instruction: str = ""
    options: CommandOptions = field(default_factory=CommandOptions)
    pull_request_url: str | None = None
    refused_paths: tuple[str, ...] = ()
    asked_by_id: int = 0
    head_sha: str | None = None
    undoes: RunFacts | None = None


@dataclass(frozen=True)
class PullFacts:
    """A pull request as GitHub has it now.

    `is_fork` says that its head lies in another repository, where nothing of ours can be pushed;
    `is_ours` that the App opened it; `is_base` that runs start from its head, such as the default
    branch of the repository; `active_run` works on it at present.
    """

    number: int
    title: str
    url: str
    state: str
    head_ref: str
    head_sha: str
    base_ref: str
    is_fork: bool
    is_ours: bool
    active_run: RunFacts | None = None
    is_base: bool = False


@dataclass(frozen=True)
class Remark:
    """One inline comment of a review. Lines are 1-based; None when the comment is outdated.

    `thread_id` is the first comment of its thread: what GitHub takes replies to.
    """

    comment_id: int
    thread_id: int
    author: str
    body: str
    path: str
    line: int | None = None
    start_line: int | None = None
    diff_hunk: str = ""


@dataclass(frozen=True)
class ReviewFacts:
    """A submitted review, whole. `state` is in the spelling of webhooks: `changes_requested`."""

    id: int
    state: str
    body: str
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class CiFacts:
    """What is to be known when a check fails on a pull request.

    `is_on` and `limit` are the repository's `fix_ci` and `fix_ci_rounds`; `rounds` of them were run
    since somebody last did anything. `failed` are the checks that fail on the head at present.
    """

    is_on: bool
    limit: int = 1
    rounds: int = 0
    failed: tuple[FailedCheck, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What deciding needs besides the event, all of it asked from GitHub, the store or settings.

    `permission` is the actor's role by the API. `active_run` and `last_run` (which may have
    ended) are of the event's issue or pull request, or of the check's run. `pull` is the pull
    request that the event is about or, for an issue, the open one that a run of it has made.
    `undoable` is the run whose push `undo` would take back. `issue_state` is that of the issue that
    a check's run is about: such an event does not show it. `team` is what GitHub says of the actor
    and the team that may start runs, where the repository names one. `models` are those that
    `model=` may name. `counts` and `limits` are what the brakes go by.
    """

    permission: str | None
    active_run: RunFacts | None = None
    last_run: RunFacts | None = None
    pull: PullFacts | None = None
    review: ReviewFacts | None = None
    undoable: RunFacts | None = None
    issue_state: str = "open"
    ci: CiFacts | None = None
    counts: Counts = field(default_factory=Counts)
    limits: Limits = field(default_factory=Limits)
    own_login: str | None = None
    app_id: int | None = None
    label: str = "aider"
    min_permission: str = "write"
    team: TeamAnswer | None = None
    allowed_bots: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    max_attempts: int = 1
    allow_permission: str = "maintain"


@dataclass(frozen=True)
class StartRun:
    """Create a run (queued). The brief is frozen from the issue as it is now.

    With `pull` the run continues that pull request: it starts from its head and pushes there.
    `remarks` are the inline comments that it has to answer, each in its thread; `failed` are the
    checks that it has to mend.
    """

    issue_number: int
    asked_by: Actor
    trigger: Trigger
    reason: str
    instruction: str = ""
    options: CommandOptions = field(default_factory=CommandOptions)
    comment_id: int | None = None
    retry_of: str | None = None
    pull: PullFacts | None = None
    remarks: tuple[Remark, ...] = ()
    failed: tuple[FailedCheck, ...] = ()


@dataclass(frozen=True)
class UndoPush:
    """Take back what `run_id` pushed to a pull request, by a commit that reverts it."""

    run_id: str
    pull: PullFacts
    asked_by: Actor
    reason: str
    comment_id: int | None = None


@dataclass(frozen=True)
class CancelRun:
    """End an active run; `by` is a login for the message."""

    run_id: str
    by: str
    reason: str


@dataclass(frozen=True)
class AllowPath:
    """Judge a refused run's bundle again, with one path let through by `by`."""

    run_id: str
    issue_number: int
    path: str
    by: Actor
    reason: str
    comment_id: int | None = None


@dataclass(frozen=True)
class React:
    target: Reactable
    content: Reaction
    reason: str


@dataclass(frozen=True)
class Reply:
    """Post one comment. `error` is there for COMMAND_ERROR, `run` where one is spoken of.

    `pull` is the pull request that the reply points to, `detail` why something is asked first.
    `brake` is there for BRAKE.
    """

    issue_number: int
    key: MessageKey
    reason: str
    run: RunFacts | None = None
    error: CommandError | None = None
    pull: PullFacts | None = None
    detail: str = ""
    brake: Brake | None = None


@dataclass(frozen=True)
class Ignore:
    reason: str


@dataclass(frozen=True)
class Wait:
    """Nothing can be decided yet: the delivery is taken again later."""

    reason: str


@dataclass(frozen=True)
class FollowReach:
    """Runs of what the App lost end; those of what it has again are told of."""

    change: Reach
    reason: str


Intent = StartRun | UndoPush | CancelRun | AllowPath | React | Reply | Ignore | Wait | FollowReach
Intents = tuple[Intent, ...]
