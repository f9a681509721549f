"""What the local GitHub remembers: mutable records, one class per noun.

Records hold facts only; the rules about changing them are in `acts`, how they look in JSON is in
`shapes`. Two records are the same only when they are the same object. Everything is guarded by
the world's lock; people and tests may read at any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demo.github.git import GitRepo

if TYPE_CHECKING:
    from demo.github.teams import Team
    from demo.github.trees import Files
    from demo.github.world import World

ROLES = ("none", "read", "triage", "write", "maintain", "admin")
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


@dataclass(eq=False, kw_only=True)
class User:
    """An account: a person, an organization, or the bot of an App."""

    id: int
    login: str
    created_at: float
    kind: str = "User"
    name: str | None = None
    email: str | None = None
    deleted: bool = False

    def __str__(self) -> str:
        return self.login


@dataclass(eq=False, kw_only=True)
class App:
    """A registered GitHub App. `private_key_pem` is handed out once, as GitHub does."""

    id: int
    slug: str
    name: str
    owner: User
    bot: User
    public_key_pem: str = field(repr=False)
    client_id: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    created_at: float
    external_url: str
    hook_id: int
    description: str = ""
    setup_url: str | None = None
    webhook_url: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)


@dataclass(eq=False, kw_only=True)
class Installation:
    """An App on an account. `repository_ids` is None when it covers all repositories."""

    id: int
    app: App
    account: User
    permissions: dict[str, str]
    events: tuple[str, ...]
    created_at: float
    updated_at: float
    repository_ids: set[int] | None
    suspended_at: float | None = None
    suspended_by: User | None = None

    def covers(self, repo: Repo) -> bool:
        if repo.owner is not self.account:
            return False
        return self.repository_ids is None or repo.id in self.repository_ids


@dataclass(eq=False, kw_only=True)
class Token:
    """An installation token (`installation` set) or a person's token (`user` set)."""

    value: str = field(repr=False)
    expires_at: float | None
    installation: Installation | None = None
    user: User | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    repository_ids: frozenset[int] | None = None
    revoked: bool = False


@dataclass(eq=False, kw_only=True)
class Label:
    id: int
    name: str
    color: str = "ededed"
    description: str = ""
    default: bool = False


@dataclass(eq=False, kw_only=True)
class Reaction:
    id: int
    user: User
    content: str
    created_at: float


@dataclass(eq=False, kw_only=True)
class TimelineEvent:
    """Something that happened to an issue, other than a comment or a review."""

    id: int
    kind: str
    actor: User
    created_at: float
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(eq=False, kw_only=True)
class Comment:
    id: int
    issue: Issue = field(repr=False)
    author: User
    body: str
    created_at: float
    updated_at: float
    via_app: App | None = field(default=None, repr=False)
    reactions: list[Reaction] = field(default_factory=list)


@dataclass(eq=False, kw_only=True)
class Issue:
    id: int
    repo: Repo = field(repr=False)
    number: int
    title: str
    body: str | None
    author: User
    created_at: float
    updated_at: float
    via_app: App | None = field(default=None, repr=False)
    state: str = "open"
    state_reason: str | None = None
    closed_at: float | None = None
    closed_by: User | None = None
    locked: bool = False
    lock_reason: str | None = None
    deleted: bool = False
    labels: list[Label] = field(default_factory=list)
    assignees: list[User] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    timeline: list[TimelineEvent] = field(default_factory=list)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)


@dataclass(eq=False, kw_only=True)
class Pull(Issue):
    """A pull request is an issue with two branches; it has an id of its own."""

    pull_id: int
    head_repo: Repo | None = field(repr=False)
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    draft: bool = False
    maintainer_can_modify: bool = False
    merged_at: float | None = None
    merged_by: User | None = None
    merge_commit_sha: str | None = None
    requested_reviewers: list[User] = field(default_factory=list)
    requested_teams: list[Team] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    review_comments: list[ReviewComment] = field(default_factory=list)

    @property
    def head_label(self) -> str:
        owner = self.head_repo.owner if self.head_repo else self.author
        return f"{owner.login}:{self.head_ref}"

    @property
    def checks(self) -> tuple[CheckRun, ...]:
        """The check runs on the head commit, oldest first."""
        return tuple(run for run in self.repo.check_runs if run.head_sha == self.head_sha)


@dataclass(eq=False, kw_only=True)
class Review:
    """`state` is PENDING, COMMENTED, APPROVED, CHANGES_REQUESTED or DISMISSED."""

    id: int
    pull: Pull = field(repr=False)
    author: User
    body: str
    state: str
    commit_id: str
    submitted_at: float | None

    @property
    def comments(self) -> tuple[ReviewComment, ...]:
        return tuple(c for c in self.pull.review_comments if c.review is self)


@dataclass(eq=False, kw_only=True)
class ReviewComment:
    """A comment on a line of the diff. `in_reply_to` is the thread's first comment."""

    id: int
    pull: Pull = field(repr=False)
    review: Review = field(repr=False)
    author: User
    body: str
    path: str
    side: str
    line: int | None
    original_line: int | None
    start_line: int | None
    start_side: str | None
    position: int | None
    original_position: int
    commit_id: str
    original_commit_id: str
    diff_hunk: str
    subject_type: str
    created_at: float
    updated_at: float
    in_reply_to: ReviewComment | None = field(default=None, repr=False)
    via_app: App | None = field(default=None, repr=False)
    reactions: list[Reaction] = field(default_factory=list)

    @property
    def replies(self) -> tuple[ReviewComment, ...]:
        return tuple(c for c in self.pull.review_comments if c.in_reply_to is self)


@dataclass(eq=False, kw_only=True)
class CheckSuite:
    id: int
    repo: Repo = field(repr=False)
    app: App = field(repr=False)
    head_sha: str
    head_branch: str | None
    created_at: float
    updated_at: float


@dataclass(eq=False, kw_only=True)
class CheckRun:
    """`log` is what a job of GitHub Actions printed; None for none, or none any more."""

    id: int
    repo: Repo = field(repr=False)
    app: App = field(repr=False)
    suite: CheckSuite = field(repr=False)
    head_sha: str
    name: str
    status: str
    started_at: float | None
    conclusion: str | None = None
    completed_at: float | None = None
    details_url: str | None = None
    external_id: str = ""
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, str]] = field(default_factory=list)
    log: bytes | None = field(default=None, repr=False)


@dataclass(eq=False, kw_only=True)
class Delivery:
    """One attempt to deliver a webhook; a redelivery is a new one with the same `guid`."""

    id: int
    guid: str
    app: App = field(repr=False)
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    url: str
    body: bytes = field(repr=False)
    created_at: float
    redelivery: bool = False
    request_headers: dict[str, str] = field(default_factory=dict, repr=False)
    delivered: bool = False
    duration: float = 0.0
    status: str = "pending"
    status_code: int = 0
    response_headers: dict[str, str] = field(default_factory=dict, repr=False)
    response_body: str | None = None


@dataclass(eq=False, kw_only=True)
class Repo:
    """A repository: its git directory, its issues, who may do what, and its switches."""

    id: int
    owner: User
    name: str
    git: GitRepo = field(repr=False)
    world: World = field(repr=False)
    default_branch: str
    private: bool
    created_at: float
    pushed_at: float
    description: str | None = None
    has_issues: bool = True
    archived: bool = False
    supports_drafts: bool = True
    fork_of: Repo | None = field(default=None, repr=False)
    protected_branches: set[str] = field(default_factory=set)
    collaborators: dict[str, str] = field(default_factory=dict)
    labels: list[Label] = field(default_factory=list, repr=False)
    issues_by_number: dict[int, Issue] = field(default_factory=dict, repr=False)
    check_suites: list[CheckSuite] = field(default_factory=list, repr=False)
    check_runs: list[CheckRun] = field(default_factory=list, repr=False)

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Issues that are not pull requests, oldest first."""
        return tuple(i for i in tuple(self.issues_by_number.values()) if not isinstance(i, Pull))

    @property
    def pulls(self) -> tuple[Pull, ...]:
        """Pull requests, oldest first."""
        return tuple(i for i in tuple(self.issues_by_number.values()) if isinstance(i, Pull))

    @property
    def clone_url(self) -> str:
        return f"{self.world.base_url}/{self.full_name}.git"

    def role_of(self, user: User) -> str:
        """Return the account's effective role: its own, the owner's, or what the public has."""
        if user.deleted:
            return "none"
        if user is self.owner:
            return "admin"
        granted = self.own_role_of(user)
        return granted if self.private or granted != "none" else "read"

    def own_role_of(self, user: User) -> str:
        """Return the role that was given to an account, or to a team that it is in."""
        by_teams = (team.role_of(user, self) for team in tuple(self.world.teams))
        own = self.collaborators.get(user.login.lower(), "none")
        return max((own, *by_teams), key=ROLES.index)

    def grant(self, person: object, role: str) -> None:
        """Give an account (a person, a user or a login) a role: one of `ROLES`."""
        if role not in ROLES:
            raise ValueError(f"no such role: {role}")
        with self.world.lock:
            self.collaborators[str(person).lower()] = role

    def commit(
        self,
        files: Files,
        *,
        branch: str | None = None,
        message: str = "Change files",
        author: object | None = None,
    ) -> str:
        """Commit to a branch as somebody pushing would, and return the new SHA.

        A value of None deletes the path. The branch starts from the default branch's head.
        """
        from demo.github.acts.pushes import commit_files  # noqa: PLC0415  (records come first)

        return commit_files(self, files, branch=branch, message=message, author=author)

    def file(self, path: str, ref: str | None = None) -> bytes:
        """Return a file's bytes at a ref (the default branch's head). KeyError when absent."""
        return self.git.read_file(ref or self.default_branch, path)

    def protect(self, branch: str) -> None:
        """Refuse pushes to a branch by everybody."""
        with self.world.lock:
            self.protected_branches.add(branch)
            self.git.write_protected(sorted(self.protected_branches))

    def branches(self) -> tuple[str, ...]:
        return tuple(self.git.heads())


def find_by_id(items: Sequence[Any], wanted: int) -> Any | None:
    return next((item for item in items if item.id == wanted), None)
