"""People, so that a test or a demo reads like a conversation.

`alice.labels(issue, "aider")` does what she would do in a browser, with the rights that she has:
acting without the right is a NotAllowed, as the button would not be there.
"""

from __future__ import annotations

from collections.abc import Mapping

from demo.github.acts import checks, comments, issues, labels, pulls, pushes, reactions, reviews
from demo.github.acts.pulls import Proposal
from demo.github.acts.reviews import Remark
from demo.github.records import (
    ROLES,
    CheckRun,
    Comment,
    Issue,
    Pull,
    Reaction,
    Repo,
    Review,
    ReviewComment,
    Token,
    User,
)
from demo.github.trees import Files
from demo.github.world import USER_TOKEN_PREFIX, World


class NotAllowed(Exception):
    """That person has no right to do this."""


class Person:
    """Somebody with an account. Verbs are what they do."""

    def __init__(self, world: World, user: User) -> None:
        self._world = world
        self.user = user

    @property
    def login(self) -> str:
        return self.user.login

    def __str__(self) -> str:
        return self.user.login

    def __repr__(self) -> str:
        return f"Person({self.user.login!r})"

    # issues

    def opens_issue(self, repo: Repo, title: str, body: str | None = None) -> Issue:
        self._must(repo, "read")
        return issues.open_issue(repo, self.user, title, body)

    def edits(
        self,
        what: Issue | Comment | ReviewComment,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> None:
        """Change an issue, a pull request or a comment: one's own, or anyone's with write."""
        author = what.author
        repo = what.issue.repo if isinstance(what, Comment) else _repo_of(what)
        self._must_own_or(repo, author, "write")
        if isinstance(what, Comment):
            comments.edit_comment(what, self.user, body or "")
        elif isinstance(what, ReviewComment):
            reviews.edit_review_comment(what, self.user, body or "")
        elif isinstance(what, Pull):
            pulls.edit_pull(what, self.user, title=title, body=body)
        else:
            issues.edit_issue(what, self.user, title=title, body=body)

    def labels(self, issue: Issue, *names: str) -> None:
        self._must(issue.repo, "triage")
        labels.add_labels(issue, self.user, names)

    def unlabels(self, issue: Issue, name: str) -> None:
        self._must(issue.repo, "triage")
        labels.remove_label(issue, self.user, name)

    def assigns(self, issue: Issue, *who: object) -> None:
        self._must(issue.repo, "triage")
        issues.assign(issue, self.user, [self._account(one) for one in who])

    def unassigns(self, issue: Issue, *who: object) -> None:
        self._must(issue.repo, "triage")
        issues.unassign(issue, self.user, [self._account(one) for one in who])

    def closes(self, issue: Issue, reason: str | None = None) -> None:
        self._must_own_or(issue.repo, issue.author, "triage")
        issues.set_state(issue, self.user, "closed", reason)

    def reopens(self, issue: Issue) -> None:
        self._must_own_or(issue.repo, issue.author, "triage")
        if isinstance(issue, Pull):
            pulls.set_pull_state(issue, self.user, "open")
        else:
            issues.set_state(issue, self.user, "open")

    def locks(self, issue: Issue, reason: str | None = None) -> None:
        self._must(issue.repo, "triage")
        issues.lock(issue, self.user, reason)

    def unlocks(self, issue: Issue) -> None:
        self._must(issue.repo, "triage")
        issues.unlock(issue, self.user)

    def deletes(self, what: Issue | Comment | ReviewComment) -> None:
        """Delete a comment (one's own, or anyone's with write), or an issue (admins only)."""
        if isinstance(what, Comment):
            self._must_own_or(what.issue.repo, what.author, "write")
            comments.delete_comment(what, self.user)
        elif isinstance(what, ReviewComment):
            self._must_own_or(what.pull.repo, what.author, "write")
            reviews.delete_review_comment(what, self.user)
        else:
            self._must(what.repo, "admin")
            issues.delete_issue(what, self.user)

    # conversation

    def comments(self, issue: Issue, body: str) -> Comment:
        self._must(issue.repo, "read")
        return comments.add_comment(issue, self.user, body)

    def reacts(self, what: Issue | Comment | ReviewComment, content: str) -> Reaction:
        reaction, _ = reactions.react(self._world, what.reactions, self.user, content)
        return reaction

    # pull requests

    def opens_pull(
        self,
        repo: Repo,
        *,
        head: str,
        base: str | None = None,
        title: str = "A change",
        body: str | None = None,
        draft: bool = False,
    ) -> Pull:
        """Open a pull request; `head` is a branch, or `owner:branch` of a fork."""
        self._must(repo, "read")
        wanted = Proposal(title, head, base or repo.default_branch, body, draft)
        return pulls.open_pull(repo, self.user, wanted)

    def reviews(
        self,
        pull: Pull,
        event: str = "COMMENT",
        body: str = "",
        remarks: Mapping[tuple[str, int], str] | None = None,
    ) -> Review:
        """Review with a verdict (APPROVE, REQUEST_CHANGES, COMMENT) and remarks on lines.

        `remarks` maps (path, line of the new side) to what is said there.
        """
        self._must(pull.repo, "read")
        notes = [Remark(path, text, line) for (path, line), text in (remarks or {}).items()]
        return reviews.create_review(pull, self.user, event, body, notes)

    def comments_on_line(
        self, pull: Pull, path: str, line: int, body: str, *, start_line: int | None = None
    ) -> ReviewComment:
        """Leave a single comment on a line of the new side."""
        self._must(pull.repo, "read")
        remark = Remark(path, body, line, start_line=start_line)
        return reviews.comment_on_line(pull, self.user, remark)

    def replies(self, comment: ReviewComment, body: str) -> ReviewComment:
        self._must(comment.pull.repo, "read")
        return reviews.reply(comment.in_reply_to or comment, self.user, body)

    def requests_review(self, pull: Pull, *who: object) -> None:
        self._must(pull.repo, "triage")
        pulls.request_reviewers(pull, self.user, [self._account(one) for one in who])

    def marks_ready(self, pull: Pull) -> None:
        self._must_own_or(pull.repo, pull.author, "write")
        pulls.set_draft(pull, self.user, draft=False)

    def converts_to_draft(self, pull: Pull) -> None:
        self._must_own_or(pull.repo, pull.author, "write")
        pulls.set_draft(pull, self.user, draft=True)

    def merges(self, pull: Pull) -> str:
        self._must(pull.repo, "write")
        return pulls.merge_pull(pull, self.user)

    # checks

    def reruns(self, run: CheckRun) -> None:
        self._must(run.repo, "write")
        checks.rerun(run, self.user)

    def presses(self, run: CheckRun, identifier: str) -> None:
        """Press one of a check run's buttons. KeyError when it has no such button."""
        self._must(run.repo, "write")
        checks.request_action(run, self.user, identifier)

    # code

    def pushes(
        self,
        repo: Repo,
        files: Files,
        *,
        branch: str | None = None,
        message: str = "Change files",
    ) -> str:
        """Commit to a branch and return the new SHA."""
        self._must(repo, "write")
        return repo.commit(files, branch=branch, message=message, author=self.user)

    def deletes_branch(self, repo: Repo, branch: str) -> None:
        self._must(repo, "write")
        pushes.delete_branch(repo, self.user, branch)

    def forks(self, repo: Repo) -> Repo:
        """Make a fork under one's own name, with all branches."""
        self._must(repo, "read")
        fork = self._world.add_repo(self.user, repo.name, repo.default_branch, private=repo.private)
        fork.fork_of = repo
        fork.git.run("fetch", "--quiet", str(repo.git.path), "+refs/heads/*:refs/heads/*")
        return fork

    def token(self) -> str:
        """Return a personal access token: for git, and for the API as oneself."""

        def make(value: str) -> Token:
            return Token(value=value, expires_at=None, user=self.user)

        return self._world.issue_token(make, USER_TOKEN_PREFIX).value

    # rights

    def _account(self, who: object) -> User:
        return self._world.user(str(who))

    def _must(self, repo: Repo, role: str) -> None:
        own = repo.role_of(self.user)
        if ROLES.index(own) < ROLES.index(role):
            raise NotAllowed(f"{self.login} has {own} on {repo.full_name}; this needs {role}")

    def _must_own_or(self, repo: Repo, author: User, role: str) -> None:
        if author is not self.user:
            self._must(repo, role)


def _repo_of(what: Issue | ReviewComment) -> Repo:
    return what.pull.repo if isinstance(what, ReviewComment) else what.repo
