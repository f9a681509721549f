"""The few calls that Drydock makes to one repository on GitHub.

What comes back are our own frozen values; what goes wrong is one of `app.github.errors`. Reads,
and writes that may be done twice, are repeated while GitHub is unavailable. Whatever creates
something looks first and looks again before it repeats, since a request that timed out may have
been carried out; `ensure_…` therefore never makes a second one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import structlog
from github.Auth import Auth
from github.ContentFile import ContentFile
from github.GithubObject import NotSet, Opt
from github.Issue import Issue
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest
from github.PullRequestComment import PullRequestComment
from github.Repository import Repository

from app.github.auth import Scope, TokenSource
from app.github.convert import (
    to_comment,
    to_issue,
    to_pull,
    to_repo,
    to_review,
    to_review_comment,
)
from app.github.errors import (
    GitHubError,
    GitHubUnavailable,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
)
from app.github.objects import GitObjects
from app.github.transport import TRIES, Api, StrictRequester, meaning, pause_after, repeat
from app.github.values import (
    GHOST,
    AppInfo,
    CommentInfo,
    IssueInfo,
    Permission,
    PullInfo,
    RepoHandle,
    RepoInfo,
    ReviewCommentInfo,
    ReviewInfo,
)

__all__ = [
    "AppInfo",
    "CommentInfo",
    "GitHubGateway",
    "IssueInfo",
    "Permission",
    "PullInfo",
    "RepoHandle",
    "RepoInfo",
    "ReviewCommentInfo",
]

T = TypeVar("T")

_log = structlog.get_logger(__name__)

# Anything else cannot be a login, and must not become part of a path.
_LOGIN = re.compile(r"[A-Za-z0-9_-]+(\[bot\])?")
_EMPTY_REPOSITORY = 409
_UNAUTHORIZED = 401


class _ScopedAuth(Auth):
    """Asks the source at every request, so that a token that ends is followed by the next."""

    def __init__(self, tokens: TokenSource, handle: RepoHandle, scope: Scope) -> None:
        self._tokens = tokens
        self._handle = handle
        self._scope = scope
        self._last: str | None = None

    @property
    def token_type(self) -> str:
        return "token"

    @property
    def token(self) -> str:
        handle = self._handle
        self._last = self._tokens.token(handle.installation_id, handle.repo_id, self._scope)
        return self._last

    def forget(self) -> None:
        """Have the next request use another token than the last one did."""
        if self._last is not None:
            self._tokens.forget(self._last)


class GitHubGateway:
    """One repository, seen through one installation of the App.

    Every call may raise any of `app.github.errors`; a docstring names only what is particular.
    Not for several threads at once; close it, or use it in a `with` statement.
    """

    def __init__(self, handle: RepoHandle, tokens: TokenSource) -> None:
        self.handle = handle
        self._tokens = tokens
        self._auths = {scope: _ScopedAuth(tokens, handle, scope) for scope in Scope}
        self._requesters: dict[Scope, StrictRequester] = {}
        self._posted: dict[tuple[int, str], CommentInfo] = {}

    def __enter__(self) -> GitHubGateway:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. The tokens stay with their source, which revokes them."""
        for requester in self._requesters.values():
            requester.close()
        self._requesters.clear()

    # --- who and where ------------------------------------------------------------------------

    def get_app(self) -> AppInfo:
        """Return who the App is; asked from GitHub once per token source."""
        return self._tokens.app_info()

    def permission_of(self, login: str) -> Permission:
        """Return a person's role in the repository; NONE for strangers and deleted accounts.

        A custom role counts as the base role that GitHub reports beside it.
        https://docs.github.com/en/rest/collaborators/collaborators#get-repository-permissions-for-a-user
        """
        if login.lower() == GHOST or not _LOGIN.fullmatch(login):
            return Permission.NONE
        path = f"{self._path}/collaborators/{quote(login, safe='')}/permission"
        try:
            _, answer = self._ask(lambda: self._talk.requestJsonAndCheck("GET", path))
        except NotFound:
            return Permission.NONE
        return _permission(answer)

    def is_in_team(self, org: str, slug: str, login: str) -> bool:
        """Say whether somebody is an active member of a team; a team that is not there has none.

        NotAllowed when the installation has not granted `members: read`.
        https://docs.github.com/en/rest/teams/members#get-team-membership-for-a-user
        """
        if login.lower() == GHOST or not all(map(_LOGIN.fullmatch, (org, login))):
            return False
        path = f"/orgs/{org}/teams/{quote(slug, safe='')}/memberships/{quote(login, safe='')}"
        talk = self._requester(Scope.TEAMS)
        try:
            _, answer = self._ask(lambda: talk.requestJsonAndCheck("GET", path))
        except NotFound:
            return False
        # An invitation that was not taken is `pending`.
        return bool(answer.get("state") == "active")

    def get_repo(self) -> RepoInfo:
        """Return the repository under its present name (a renamed one is found)."""
        return self._ask(lambda: to_repo(self._repo().complete()))

    def branch_sha(self, branch: str) -> str | None:
        """Return the commit that a branch points to; None when there is no such branch.

        An empty repository has no branch at all. Needs only `contents: read`.
        """
        if ".." in branch:
            # Not a name that git allows, and dots would walk up the URL.
            return None
        try:
            ref = self._ask(
                lambda: self._repo(Scope.CONTENTS_READ).get_git_ref(f"heads/{branch}").complete()
            )
        except NotFound:
            return None
        except Invalid as error:
            if error.status != _EMPTY_REPOSITORY:
                raise
            return None
        return ref.object.sha

    def get_file(self, path: str, ref: str) -> bytes | None:
        """Return a file of at most 1 MB at a branch, tag or commit; None when it is not there.

        Invalid when there is a folder, a symlink, a submodule or a larger file at that path.
        """
        try:
            found = self._ask(lambda: self._repo(Scope.CONTENTS_READ).get_contents(path, ref=ref))
        except NotFound:
            return None
        if not isinstance(found, ContentFile) or found.type != "file" or found.encoding != "base64":
            raise Invalid((f"{path} is not an ordinary file of at most 1 MB",))
        return found.decoded_content

    def objects(self) -> GitObjects:
        """Return the repository's Git database, by a token that may write contents."""
        talk = self._requester(Scope.CONTENTS_WRITE)
        return GitObjects(talk, self._path, self._ask, self._ensure)

    # --- issues and their conversation --------------------------------------------------------

    def get_issue(self, number: int) -> IssueInfo:
        """Return an issue. Gone when it was deleted, NotFound when it never was."""
        return self._ask(lambda: to_issue(self._issue(number).complete()))

    def list_issue_comments(self, number: int) -> tuple[CommentInfo, ...]:
        """Return the whole conversation of an issue or pull request, oldest first."""
        return self._ask(lambda: tuple(map(to_comment, self._issue(number).get_comments())))

    def react_to_issue(self, number: int, content: str) -> None:
        """React to an issue (`eyes`, `rocket`, `confused`, …); once, however often it is asked."""
        self._ask(lambda: self._issue(number).create_reaction(content))

    def react_to_comment(self, comment_id: int, content: str) -> None:
        """React to a comment of the conversation; once, however often it is asked."""
        self._ask(lambda: self._comment(comment_id).create_reaction(content))

    def react_to_review_comment(self, comment_id: int, content: str) -> None:
        """React to an inline comment; once, however often it is asked."""
        self._ask(lambda: self._review_comment(comment_id).create_reaction(content))

    def find_comment(self, number: int, marker: str) -> CommentInfo | None:
        """Return our own comment that contains `marker`; somebody else's copy does not count."""
        ours = (c for c in self.list_issue_comments(number) if self._is_ours(c.author))
        return next((comment for comment in ours if marker in comment.body), None)

    def ensure_comment(self, number: int, marker: str, body: str) -> CommentInfo:
        """Have exactly one comment of ours with `marker`, and have it say `body`.

        It is searched for once by each gateway. A comment that somebody deleted is posted again.
        ValueError when `body` lacks the marker: it would not be found the next time.
        """
        if marker not in body:
            raise ValueError("the body must contain its marker")
        comment = self._posted_before(number, marker, body)
        if comment is None:
            comment = self._ensure(
                look=lambda: self.find_comment(number, marker),
                create=lambda: to_comment(self._issue(number).create_comment(body)),
            )
        if comment.body != body:
            comment = self.edit_comment(comment.id, body)
        self._posted[number, marker] = comment
        return comment

    def _posted_before(self, number: int, marker: str, body: str) -> CommentInfo | None:
        """Return the comment that was found before, edited; None when there is none (any more)."""
        comment = self._posted.get((number, marker))
        if comment is None or comment.body == body:
            return comment
        try:
            return self.edit_comment(comment.id, body)
        except NotFound:
            return None

    def edit_comment(self, comment_id: int, body: str) -> CommentInfo:
        """Replace the text of a comment of ours. NotFound when it was deleted."""

        def edit() -> CommentInfo:
            comment = self._comment(comment_id)
            comment.edit(body)
            return to_comment(comment)

        return self._ask(edit)

    def add_labels(self, number: int, *labels: str) -> None:
        """Add labels to an issue or pull request; those it has already stay."""
        path = f"{self._path}/issues/{number}/labels"
        wish = {"labels": list(labels)}
        # PyGithub sends a bare list, which GitHub takes but documents as the lesser form.
        self._ask(lambda: self._talk.requestJsonAndCheck("POST", path, input=wish))

    # --- pull requests ------------------------------------------------------------------------

    def get_pull(self, number: int) -> PullInfo:
        return self._ask(lambda: to_pull(self._pull(number).complete()))

    def find_pull(self, branch: str, state: str = "open") -> PullInfo | None:
        """Return the newest pull request from a branch of this repository (not of a fork)."""
        head = f"{self.handle.owner}:{branch}"
        found = self._ask(lambda: [to_pull(p) for p in self._repo().get_pulls(state, head=head)])
        # A server that does not know the filter answers with everything.
        return next((pull for pull in found if pull.head_ref == branch), None)

    def ensure_pull(
        self, *, head: str, base: str, title: str, body: str, draft: bool = True
    ) -> PullInfo:
        """Have one open pull request from `head`, with this title and body.

        Where drafts do not exist an ordinary one is opened, and `draft_unsupported` says so.
        Invalid when GitHub refuses it, for instance since there is nothing to merge.
        """
        pull = self._ensure(
            look=lambda: self.find_pull(head),
            create=lambda: self._create_pull(head, base, title, body, draft),
        )
        if (pull.title, pull.body) == (title, body):
            return pull
        edited = self.update_pull(pull.number, title=title, body=body)
        return replace(edited, draft_unsupported=pull.draft_unsupported)

    def update_pull(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        state: str | None = None,
    ) -> PullInfo:
        """Change title, body or state (`open`, `closed`); None leaves it as it is."""

        def edit() -> PullInfo:
            pull = self._pull(number)
            pull.edit(_given(title), _given(body), _given(state))
            return to_pull(pull)

        return self._ask(edit)

    def get_review(self, number: int, review_id: int) -> ReviewInfo:
        """Return a review of a pull request. NotFound when it was deleted, or is not sent off."""
        return self._ask(lambda: to_review(self._pull(number).get_review(review_id)))

    def request_reviewers(
        self, number: int, logins: Sequence[str], teams: Sequence[str] = ()
    ) -> None:
        """Ask people, and teams by their slugs, for a review: all of them, or Invalid and none.

        Who is asked already stays so. NotAllowed when there are teams and the installation has not
        granted `members: read`, without which GitHub does not find them.
        https://docs.github.com/en/rest/pulls/review-requests
        """
        talk = self._requester(Scope.TEAM_REVIEWS) if teams else self._talk
        path = f"{self._path}/pulls/{number}/requested_reviewers"
        wish = {"reviewers": list(logins), "team_reviewers": list(teams)}
        self._ask(lambda: talk.requestJsonAndCheck("POST", path, input=wish))

    def list_review_comments(self, number: int) -> tuple[ReviewCommentInfo, ...]:
        """Return all inline comments of a pull request, oldest first."""
        return self._ask(
            lambda: tuple(map(to_review_comment, self._pull(number).get_review_comments()))
        )

    def create_reply(
        self, number: int, comment_id: int, marker: str, body: str
    ) -> ReviewCommentInfo:
        """Have one reply of ours with `marker` in the thread of an inline comment.

        `comment_id` is the thread's first comment: GitHub takes no replies to replies.
        """
        if marker not in body:
            raise ValueError("the body must contain its marker")
        return self._ensure(
            look=lambda: self._find_reply(number, comment_id, marker),
            create=lambda: to_review_comment(
                self._pull(number).create_review_comment_reply(comment_id, body)
            ),
        )

    # --- how ----------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """Where the API has the repository."""
        return self._path

    @property
    def api(self) -> Api:
        return self._tokens.api

    def ask(self, ask: Callable[[StrictRequester], T], scope: Scope = Scope.CONVERSATION) -> T:
        """Ask what has no method here and may be asked twice, with a token of that scope."""
        return self._ask(lambda: ask(self._requester(scope)))

    def ensure(self, look: Callable[[], T | None], create: Callable[[StrictRequester], T]) -> T:
        """Return what `look` finds, or create it; look again before creating a second time."""
        return self._ensure(look, lambda: create(self._talk))

    @property
    def _path(self) -> str:
        return f"/repos/{self.handle.full_name}"

    @property
    def _talk(self) -> StrictRequester:
        return self._requester(Scope.CONVERSATION)

    def _requester(self, scope: Scope) -> StrictRequester:
        if scope not in self._requesters:
            self._requesters[scope] = self._tokens.api.requester(self._auths[scope])
        return self._requesters[scope]

    def _repo(self, scope: Scope = Scope.CONVERSATION) -> Repository:
        return Repository(self._requester(scope), url=self._path)

    def _issue(self, number: int) -> Issue:
        return Issue(self._talk, url=f"{self._path}/issues/{number}")

    def _comment(self, comment_id: int) -> IssueComment:
        return IssueComment(self._talk, url=f"{self._path}/issues/comments/{comment_id}")

    def _review_comment(self, comment_id: int) -> PullRequestComment:
        return PullRequestComment(self._talk, url=f"{self._path}/pulls/comments/{comment_id}")

    def _pull(self, number: int) -> PullRequest:
        return PullRequest(self._talk, url=f"{self._path}/pulls/{number}")

    def _is_ours(self, login: str) -> bool:
        return login.lower() == self.get_app().bot_login.lower()

    def _find_reply(self, number: int, comment_id: int, marker: str) -> ReviewCommentInfo | None:
        thread = (c for c in self.list_review_comments(number) if c.in_reply_to == comment_id)
        return next((c for c in thread if marker in c.body and self._is_ours(c.author)), None)

    def _create_pull(self, head: str, base: str, title: str, body: str, draft: bool) -> PullInfo:
        def create() -> PullInfo:
            made = self._repo().create_pull(base, head, title=title, body=body, draft=draft)
            return to_pull(made)

        try:
            return self._translated(create)
        except Invalid as error:
            if not (draft and error.mentions("draft pull requests")):
                raise
            _log.info("draft_unsupported", repo=self.handle.full_name, reason=str(error))
        plain = self._create_pull(head, base, title, body, draft=False)
        return replace(plain, draft_unsupported=True)

    def _ask(self, ask: Callable[[], T]) -> T:
        """Ask what may be asked twice."""
        return repeat(lambda: self._once(ask), self._tokens.sleep, self._tokens.clock)

    def _once(self, ask: Callable[[], T]) -> T:
        """Ask once, with another token if GitHub no longer takes the one that was kept.

        Somebody may have revoked it. A request that got 401 was not carried out, so even one
        that creates something may be sent again.
        """
        try:
            return self._translated(ask)
        except NotAllowed as error:
            if error.status != _UNAUTHORIZED:
                raise
            for auth in self._auths.values():
                auth.forget()
        return self._translated(ask)

    def _translated(self, ask: Callable[[], T]) -> T:
        with meaning(self._tokens.clock):
            return ask()

    def _ensure(self, look: Callable[[], T | None], create: Callable[[], T]) -> T:
        """Return what `look` finds, or create it; look again before creating a second time."""
        attempt = 0
        while True:
            found = look()
            if found is not None:
                return found
            try:
                return self._once(create)
            except (GitHubUnavailable, RateLimited, Invalid) as error:
                pause = self._pause_before_looking_again(error, attempt)
                if pause is None:
                    raise
            self._tokens.sleep(pause)
            attempt += 1

    def _pause_before_looking_again(self, error: GitHubError, attempt: int) -> float | None:
        if attempt == TRIES - 1:
            return None
        if isinstance(error, Invalid) and not error.mentions("already exists"):
            return None
        return pause_after(error, attempt, self._tokens.clock())


def _permission(answer: Mapping[str, Any]) -> Permission:
    """`role_name` tells triage and maintain, which `permission` folds into read and write."""
    for word in (answer.get("role_name"), answer.get("permission")):
        if word in set(Permission):
            return Permission(word)
    return Permission.NONE


def _given(value: str | None) -> Opt[str]:
    return NotSet if value is None else value
