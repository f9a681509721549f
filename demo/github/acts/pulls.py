"""Opening, changing, merging and closing pull requests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from demo.github.acts.issues import next_number, note, require_writable, set_state
from demo.github.acts.texts import check_body, check_title, closing_references
from demo.github.announce import pull_event
from demo.github.errors import ApiError, custom_error, invalid_field
from demo.github.git import Identity
from demo.github.pullfacts import merge_state
from demo.github.records import App, Issue, Pull, Repo, User
from demo.github.shapes import accounts
from demo.github.shapes.teams import team as shape_of_team
from demo.github.teams import Team


@dataclass(frozen=True)
class Proposal:
    """What a pull request is made from. `head` is a branch, or `owner:branch` of a fork."""

    title: str
    head: str
    base: str
    body: str | None = None
    draft: bool = False
    maintainer_can_modify: bool = True


@dataclass(frozen=True)
class _Head:
    repo: Repo
    ref: str
    sha: str


def open_pull(repo: Repo, actor: User, wanted: Proposal, *, via_app: App | None = None) -> Pull:
    """Open a pull request. ApiError 422, in GitHub's order, for whatever stands against it."""
    require_writable(repo)
    check_title("PullRequest", wanted.title)
    check_body("PullRequest", wanted.body)
    with repo.world.lock:
        base_sha = repo.git.head(wanted.base)
        if base_sha is None:
            raise invalid_field("PullRequest", "base")
        head = _find_head(repo, wanted.head)
        if head.repo is not repo:
            repo.git.fetch_from(head.repo.git, head.sha)
        _check_new(repo, wanted, head, base_sha)
        pull = _record(repo, actor, wanted, head, base_sha, via_app)
        repo.issues_by_number[pull.number] = pull
        repo.git.update_ref(f"refs/pull/{pull.number}/head", head.sha)
        _note_references(pull, actor)
        pull_event(pull, "opened", actor)
        return pull


def _find_head(repo: Repo, head: str) -> _Head:
    owner, _, branch = head.rpartition(":")
    source = repo
    if owner and owner.lower() != repo.owner.login.lower():
        source = _fork_of(repo, owner)
    sha = source.git.head(branch)
    if sha is None:
        raise invalid_field("PullRequest", "head")
    return _Head(source, branch, sha)


def _fork_of(repo: Repo, owner: str) -> Repo:
    for candidate in tuple(repo.world.repos.values()):
        if candidate.fork_of is repo and candidate.owner.login.lower() == owner.lower():
            return candidate
    raise invalid_field("PullRequest", "head")


def _check_new(repo: Repo, wanted: Proposal, head: _Head, base_sha: str) -> None:
    label = f"{head.repo.owner.login}:{head.ref}"
    if any(_same(pull, head, wanted.base) for pull in repo.pulls):
        raise custom_error("PullRequest", f"A pull request already exists for {label}.")
    if repo.git.merge_base(base_sha, head.sha) is None:
        message = f"The {wanted.base} branch has no history in common with {label}"
        raise custom_error("PullRequest", message)
    if repo.git.count(f"{base_sha}..{head.sha}") == 0:
        message = f"No commits between {wanted.base} and {wanted.head}"
        raise custom_error("PullRequest", message)
    if wanted.draft and not repo.supports_drafts:
        raise ApiError(422, "Draft pull requests are not supported in this repository.")


def _same(pull: Pull, head: _Head, base: str) -> bool:
    same_head = pull.head_repo is head.repo and pull.head_ref == head.ref
    return pull.state == "open" and same_head and pull.base_ref == base


def _record(
    repo: Repo, actor: User, wanted: Proposal, head: _Head, base_sha: str, via_app: App | None
) -> Pull:
    world = repo.world
    now = world.now()
    return Pull(
        id=world.next_id(),
        pull_id=world.next_id(),
        repo=repo,
        number=next_number(repo),
        title=wanted.title.strip(),
        body=wanted.body or None,
        author=actor,
        created_at=now,
        updated_at=now,
        via_app=via_app,
        head_repo=head.repo,
        head_ref=head.ref,
        head_sha=head.sha,
        base_ref=wanted.base,
        base_sha=base_sha,
        draft=wanted.draft,
        maintainer_can_modify=wanted.maintainer_can_modify and head.repo is not repo,
    )


def linked_issues(pull: Pull) -> tuple[Issue, ...]:
    """Return the issues that merging would close, by the body's closing words."""
    numbers = closing_references(pull.body or "", pull.repo.full_name)
    found = (pull.repo.issues_by_number.get(number) for number in numbers)
    return tuple(issue for issue in found if issue and not isinstance(issue, Pull))


def _note_references(pull: Pull, actor: User) -> None:
    for issue in linked_issues(pull):
        seen = (e.details.get("source") for e in issue.timeline if e.kind == "cross-referenced")
        if pull not in seen:
            note(issue, "cross-referenced", actor, source=pull)


def edit_pull(pull: Pull, actor: User, *, title: str | None, body: str | None) -> None:
    """Change title or body; None leaves it."""
    require_writable(pull.repo)
    changes: dict[str, Any] = {}
    if title is not None and title != pull.title:
        check_title("PullRequest", title)
        changes["title"] = {"from": pull.title}
    if body is not None and body != (pull.body or ""):
        check_body("PullRequest", body)
        changes["body"] = {"from": pull.body or ""}
    if not changes:
        return
    with pull.repo.world.lock:
        pull.title = title.strip() if title is not None else pull.title
        pull.body = (body or None) if body is not None else pull.body
        pull.updated_at = pull.repo.world.now()
        _note_references(pull, actor)
        pull_event(pull, "edited", actor, changes=lambda _view: changes)


def change_base(pull: Pull, actor: User, base: str) -> None:
    """Point the pull request at another base branch."""
    with pull.repo.world.lock:
        sha = pull.repo.git.head(base)
        if sha is None:
            raise invalid_field("PullRequest", "base")
        changes = {"base": {"ref": {"from": pull.base_ref}, "sha": {"from": pull.base_sha}}}
        pull.base_ref, pull.base_sha = base, sha
        pull.updated_at = pull.repo.world.now()
        pull_event(pull, "edited", actor, changes=lambda _view: changes)


def set_pull_state(pull: Pull, actor: User, state: str) -> None:
    """Close or reopen. ApiError 422 when its branch is gone or taken by another pull request."""
    if state == "open" and pull.state == "closed" and pull.merged_at is None:
        head = pull.head_repo.git.head(pull.head_ref) if pull.head_repo else None
        if head is None:
            message = f"state cannot be changed. The {pull.head_ref} branch has been deleted."
            raise custom_error("PullRequest", message, "state")
    set_state(pull, actor, state)


def set_draft(pull: Pull, actor: User, *, draft: bool) -> None:
    """Make it ready for review, or a draft again."""
    if pull.draft == draft:
        return
    with pull.repo.world.lock:
        pull.draft = draft
        kind = "convert_to_draft" if draft else "ready_for_review"
        note(pull, kind, actor)
        pull_event(pull, "converted_to_draft" if draft else "ready_for_review", actor)


def request_reviewers(
    pull: Pull, actor: User, reviewers: Iterable[User], teams: Iterable[Team] = ()
) -> None:
    """Ask people and teams for a review, all or none.

    ApiError 422 for the author, and for whoever has no access.
    """
    wanted, wanted_teams = list(reviewers), list(teams)
    if pull.author in wanted:
        raise ApiError(422, "Review cannot be requested from pull request author.")
    outsiders = [one for one in wanted if not _may_review(pull.repo, one)]
    if outsiders:
        reason = "Reviews may only be requested from collaborators."
        raise ApiError(
            422,
            f"{reason} One or more of the users or teams you specified is not a collaborator "
            f"of the {pull.repo.full_name} repository.",
        )
    if any(pull.repo.id not in team.roles for team in wanted_teams):
        raise no_collaborating_team(pull.repo)
    with pull.repo.world.lock:
        for one in wanted:
            if one not in pull.requested_reviewers:
                pull.requested_reviewers.append(one)
                note(pull, "review_requested", actor, reviewer=one)
                _tell_reviewer(pull, actor, one, "review_requested")
        for team in wanted_teams:
            if team not in pull.requested_teams:
                pull.requested_teams.append(team)
                note(pull, "review_requested", actor, team=team)
                _tell_team(pull, actor, team, "review_requested")


def no_collaborating_team(repo: Repo) -> ApiError:
    """GitHub does not tell a team without access from one that is not there."""
    return ApiError(
        422,
        "Reviews may only be requested from collaborators. One or more of the teams you specified "
        f"is not a collaborator of the {repo.full_name} repository.",
    )


def withdraw_reviewers(
    pull: Pull, actor: User, reviewers: Iterable[User], teams: Iterable[Team] = ()
) -> None:
    with pull.repo.world.lock:
        for team in teams:
            if team in pull.requested_teams:
                pull.requested_teams.remove(team)
                note(pull, "review_request_removed", actor, team=team)
                _tell_team(pull, actor, team, "review_request_removed")
        for one in reviewers:
            if one in pull.requested_reviewers:
                pull.requested_reviewers.remove(one)
                note(pull, "review_request_removed", actor, reviewer=one)
                _tell_reviewer(pull, actor, one, "review_request_removed")


def _may_review(repo: Repo, user: User) -> bool:
    return user is repo.owner or repo.own_role_of(user) != "none"


def _tell_reviewer(pull: Pull, actor: User, reviewer: User, action: str) -> None:
    pull_event(pull, action, actor, requested_reviewer=lambda view: accounts.user(view, reviewer))


def _tell_team(pull: Pull, actor: User, team: Team, action: str) -> None:
    pull_event(pull, action, actor, requested_team=lambda view: shape_of_team(view, team))


def merge_pull(pull: Pull, actor: User, *, sha: str | None = None, message: str = "") -> str:
    """Merge with a merge commit and return its SHA. ApiError 405 or 409 when it cannot be."""
    from demo.github.acts.pushes import move_branch  # noqa: PLC0415  (pushes close pulls too)

    require_writable(pull.repo)
    with pull.repo.world.lock:
        if sha is not None and sha != pull.head_sha:
            raise ApiError(409, "Head branch was modified. Review and try the merge again.")
        mergeable, _ = merge_state(pull)
        if pull.state != "open" or pull.draft or not mergeable:
            raise ApiError(405, "Pull Request is not mergeable")
        merged = _merge_commit(pull, actor, message)
        complete_merge(pull, actor, merged)
        move_branch(pull.repo, actor, pull.base_ref, merged)
        return merged


def _merge_commit(pull: Pull, actor: User, message: str) -> str:
    git = pull.repo.git
    base = git.head(pull.base_ref) or pull.base_sha
    tree = git.merge_tree(base, pull.head_sha)
    if tree is None:
        raise ApiError(405, "Pull Request is not mergeable")
    login = actor.login
    who = Identity(actor.name or login, f"{actor.id}+{login}@users.noreply.localhost",
                   int(pull.repo.world.now()))  # fmt: skip
    source = pull.head_label.replace(":", "/")
    text = message or f"Merge pull request #{pull.number} from {source}\n\n{pull.title}"
    return git.commit_tree(tree, [base, pull.head_sha], text, who, who)


def complete_merge(pull: Pull, actor: User, merge_sha: str) -> None:
    """Record that the head is in the base, and close what the pull request fixes."""
    now = pull.repo.world.now()
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = now, actor, merge_sha
    pull.state, pull.closed_at, pull.closed_by = "closed", now, actor
    note(pull, "merged", actor, sha=merge_sha)
    pull_event(pull, "closed", actor)
    if pull.base_ref == pull.repo.default_branch:
        for issue in linked_issues(pull):
            set_state(issue, actor, "closed", "completed")
