"""What follows when refs move: events, and pull requests that follow their branches."""

from __future__ import annotations

from collections.abc import Mapping

from demo.github.acts.checks import request_suites
from demo.github.acts.issues import note
from demo.github.acts.pulls import complete_merge
from demo.github.acts.reviews import refresh_places
from demo.github.announce import announce, pull_event
from demo.github.diffs import diff
from demo.github.git import EMPTY_TREE, ZERO, Commit, Identity
from demo.github.records import Pull, Repo, User
from demo.github.shapes import gitdata, repos
from demo.github.shapes.view import Json, View
from demo.github.trees import Files, write_commit

MAX_LISTED_COMMITS = 2048


def commit_files(
    repo: Repo,
    files: Files,
    *,
    branch: str | None,
    message: str,
    author: object | None,
) -> str:
    """Commit to a branch and announce it as a push. See `Repo.commit`."""
    world = repo.world
    with world.lock:
        name = branch or repo.default_branch
        actor = world.find_user(str(author)) if author is not None else repo.owner
        pusher = actor or repo.owner
        parent = repo.git.head(name) or repo.git.head(repo.default_branch)
        sha = write_commit(
            repo.git,
            files,
            parent=parent,
            message=message,
            author=identity_of(pusher, world.now()),
        )
        move_branch(repo, pusher, name, sha)
        return sha


def identity_of(user: User, at: float) -> Identity:
    address = user.email or f"{user.id}+{user.login}@users.noreply.localhost"
    return Identity(user.name or user.login, address, int(at))


def move_branch(repo: Repo, actor: User, branch: str, sha: str) -> None:
    """Set a branch and tell everybody, as a push would."""
    with repo.world.lock:
        ref = f"refs/heads/{branch}"
        before = repo.git.refs()
        repo.git.update_ref(ref, sha)
        refs_changed(repo, actor, before, {**before, ref: sha})


def delete_branch(repo: Repo, actor: User, branch: str) -> None:
    with repo.world.lock:
        before = repo.git.refs()
        repo.git.delete_ref(f"refs/heads/{branch}")
        refs_changed(repo, actor, before, repo.git.refs())


def refs_changed(
    repo: Repo, actor: User, before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    """Announce every ref that is not what it was, and move the pull requests along."""
    with repo.world.lock:
        for ref in sorted(before.keys() | after.keys()):
            old, new = before.get(ref, ZERO), after.get(ref, ZERO)
            if old != new and ref.startswith(("refs/heads/", "refs/tags/")):
                repo.pushed_at = repo.world.now()
                _announce_ref(repo, actor, ref, old, new)
                if ref.startswith("refs/heads/"):
                    _follow(repo, actor, ref.removeprefix("refs/heads/"), new)


def _announce_ref(repo: Repo, actor: User, ref: str, old: str, new: str) -> None:
    if old == ZERO:
        _announce_name(repo, actor, ref, "create")
    _announce_push(repo, actor, ref, old, new)
    if new == ZERO:
        _announce_name(repo, actor, ref, "delete")
    elif ref.startswith("refs/heads/"):
        request_suites(repo, actor, ref.removeprefix("refs/heads/"), new)


def _announce_name(repo: Repo, actor: User, ref: str, event: str) -> None:
    kind, name = ref.removeprefix("refs/").split("/", 1)
    payload: Json = {"ref": name, "ref_type": "branch" if kind == "heads" else "tag"}
    if event == "create":
        payload |= {"master_branch": repo.default_branch, "description": repo.description}
    announce(repo, event, actor, lambda _view: {**payload, "pusher_type": "user"})


def _announce_push(repo: Repo, actor: User, ref: str, old: str, new: str) -> None:
    commits = _new_commits(repo, old, new)
    forced = ZERO not in (old, new) and not repo.git.is_ancestor(old, new)

    def payload(view: View) -> Json:
        listed = [_listed(view, repo, commit) for commit in commits]
        return {
            "ref": ref,
            "before": old,
            "after": new,
            "pusher": {"name": actor.login, "email": identity_of(actor, 0).email},
            "created": old == ZERO,
            "deleted": new == ZERO,
            "forced": forced,
            "base_ref": None,
            "compare": view.repo_web(repo, f"/compare/{old[:12]}...{new[:12]}"),
            "commits": listed,
            "head_commit": listed[-1] if listed else None,
        }

    view = View(repo.world, repo.world.base_url)
    announce(repo, "push", actor, payload, repository=_push_repository(view, repo))


def _new_commits(repo: Repo, old: str, new: str) -> list[Commit]:
    if new == ZERO:
        return []
    known = old if old != ZERO else repo.git.head(repo.default_branch)
    return repo.git.commits(known if known != new else None, new, MAX_LISTED_COMMITS)


def _listed(view: View, repo: Repo, commit: Commit) -> Json:
    parent = commit.parents[0] if commit.parents else EMPTY_TREE
    return gitdata.pushed_commit(view, repo, commit, diff(repo.git, parent, commit.sha))


def _push_repository(view: View, repo: Repo) -> Json:
    """Return the repository as only the push event has it: times as numbers, owner with a name."""
    shape = repos.repository(view, repo)
    owner = {"name": repo.owner.login, "email": repo.owner.email, **shape["owner"]}
    return {
        **shape,
        "owner": owner,
        "url": view.repo_web(repo),
        "created_at": int(repo.created_at),
        "pushed_at": int(repo.pushed_at),
        "stargazers": 0,
        "master_branch": repo.default_branch,
    }


def _follow(repo: Repo, actor: User, branch: str, new: str) -> None:
    """Bring pull requests up to date: from this branch (into any repository), and into it."""
    for candidate in tuple(repo.world.repos.values()):
        for pull in candidate.pulls:
            if pull.state != "open":
                continue
            if pull.head_repo is repo and pull.head_ref == branch:
                _move_head(pull, actor, new)
            elif pull.repo is repo and pull.base_ref == branch and new != ZERO:
                _move_base(pull, actor, new)


def _move_head(pull: Pull, actor: User, new: str) -> None:
    if new == ZERO:
        _close_for_lost_branch(pull, actor)
        return
    old, git = pull.head_sha, pull.repo.git
    if pull.head_repo is not None and pull.head_repo is not pull.repo:
        git.fetch_from(pull.head_repo.git, new)
    git.update_ref(f"refs/pull/{pull.number}/head", new)
    pull.head_sha = new
    added = git.commits(old, new) if git.is_ancestor(old, new) else []
    kind = "pushed" if added else "head_ref_force_pushed"
    note(pull, kind, actor, commits=added, before=old, after=new)
    refresh_places(pull)
    pull_event(pull, "synchronize", actor, before=lambda _v: old, after=lambda _v: new)


def _close_for_lost_branch(pull: Pull, actor: User) -> None:
    pull.state, pull.closed_at, pull.closed_by = "closed", pull.repo.world.now(), actor
    note(pull, "head_ref_deleted", actor)
    note(pull, "closed", actor)
    pull_event(pull, "closed", actor)


def _move_base(pull: Pull, actor: User, new: str) -> None:
    """A base that now holds the head means the pull request was merged by hand."""
    if pull.merged_at is None and pull.repo.git.is_ancestor(pull.head_sha, new):
        complete_merge(pull, actor, new)
    pull.base_sha = pull.base_sha if pull.merged_at else new
