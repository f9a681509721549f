"""The gateway against the stateful local GitHub, whose contract is GitHub's own description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.github.auth import Scope, TokenSource
from app.github.checks import ensure_check_run, update_check_run
from app.github.compare import commits_behind
from app.github.errors import (
    AccessLost,
    GitHubUnavailable,
    Gone,
    Invalid,
    NotAllowed,
    NotFound,
    RateLimited,
)
from app.github.gateway import GitHubGateway, Permission, RepoHandle
from app.github.values import CheckAnnotation, CheckButton, CheckRunWish
from demo.github import AppKeys, LocalGitHub
from demo.github.contract import DESCRIPTION, Contract, find
from tests.app.github.conftest import Clock

CHECKOUT = Path(__file__).parents[3]
MARKER = "<!-- drydock:status run=R1 -->"


class Scene:
    """A repository with an issue and a branch, an installed App, and the gateway to it."""

    def __init__(self, hub: LocalGitHub, clock: Clock) -> None:
        self.hub = hub
        self.clock = clock
        self.ada = hub.create_user("ada")
        self.repo = hub.create_repo("octo", "ship", {"pump.py": b"leak = True\n"}, private=True)
        self.repo.grant(self.ada, "admin")
        self.app: AppKeys = hub.create_app("drydock")
        self.installation = hub.install(self.app, self.repo)
        self.issue = self.ada.opens_issue(self.repo, "The pump leaks", "It does.")
        self.tokens = TokenSource(
            api_url=hub.api_url,
            app_id=self.app.app_id,
            private_key=self.app.private_key_pem,
            clock=clock,
            sleep=clock.sleep,
        )
        handle = RepoHandle(self.installation.id, self.repo.id, "octo", "ship")
        self.gateway = GitHubGateway(handle, self.tokens)

    def branch(self, name: str = "aider/issue-1") -> str:
        """Push a commit to a new branch as a person would, and return its id."""
        return self.repo.commit({"pump.py": b"leak = False\n"}, branch=name, author=self.ada)


@pytest.fixture(scope="module")
def contract() -> Contract:
    return Contract(find(CHECKOUT, DESCRIPTION))


@pytest.fixture
def scene(tmp_path: Path, clock: Clock, contract: Contract) -> Iterator[Scene]:
    """A scene whose every exchange, in the end, must have been one that GitHub describes."""
    with LocalGitHub(tmp_path / "github", clock=clock) as hub:
        made = Scene(hub, clock)
        yield made
        made.gateway.close()
        assert contract.violations(hub.recorder.exchanges) == []


def test_the_app_knows_itself_and_its_repository(scene: Scene) -> None:
    assert scene.gateway.get_app().bot_login == "drydock[bot]"
    repo = scene.gateway.get_repo()
    assert (repo.id, repo.full_name, repo.default_branch) == (scene.repo.id, "octo/ship", "main")
    assert (repo.private, repo.archived) == (True, False)
    assert repo.clone_url == f"{scene.hub.web_url}/octo/ship.git"


@pytest.mark.parametrize("role", ["read", "triage", "write", "maintain", "admin"])
def test_a_role_is_the_one_that_was_granted(scene: Scene, role: str) -> None:
    bob = scene.hub.create_user("bob")
    scene.repo.grant(bob, role)
    assert scene.gateway.permission_of("bob") is Permission(role)


def test_strangers_and_unknown_people_have_no_role(scene: Scene) -> None:
    scene.hub.create_user("eve")
    assert scene.gateway.permission_of("eve") is Permission.NONE
    assert scene.gateway.permission_of("nobody-at-all") is Permission.NONE


def test_an_issue_is_read_as_it_stands(scene: Scene) -> None:
    scene.ada.labels(scene.issue, "aider")
    scene.ada.comments(scene.issue, "please")
    issue = scene.gateway.get_issue(scene.issue.number)
    assert (issue.title, issue.body, issue.author) == ("The pump leaks", "It does.", "ada")
    assert (issue.labels, issue.is_pull_request, issue.state) == (("aider",), False, "open")
    (comment,) = scene.gateway.list_issue_comments(scene.issue.number)
    assert (comment.author, comment.author_kind, comment.body) == ("ada", "User", "please")


def test_an_issue_that_is_deleted_or_never_was(scene: Scene) -> None:
    scene.ada.deletes(scene.issue)
    with pytest.raises(Gone):
        scene.gateway.get_issue(scene.issue.number)
    with pytest.raises(NotFound):
        scene.gateway.get_issue(999)


def test_a_reaction_is_there_once(scene: Scene) -> None:
    comment = scene.ada.comments(scene.issue, "/aider")
    for _ in range(2):
        scene.gateway.react_to_issue(scene.issue.number, "eyes")
        scene.gateway.react_to_comment(comment.id, "rocket")
    assert [r.content for r in scene.issue.reactions] == ["eyes"]
    assert [r.content for r in comment.reactions] == ["rocket"]


def test_more_than_a_page_of_comments_is_read(scene: Scene) -> None:
    for number in range(101):
        scene.ada.comments(scene.issue, f"no. {number}")
    comments = scene.gateway.list_issue_comments(scene.issue.number)
    assert [c.body for c in comments] == [f"no. {n}" for n in range(101)]


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("how", ["server_error", "connection_reset"])
def test_one_status_comment_whatever_goes_wrong(scene: Scene, how: str, after: bool) -> None:
    getattr(scene.hub.faults, how)("POST", r"/comments$", after=after)
    number = scene.issue.number
    first = scene.gateway.ensure_comment(number, MARKER, f"{MARKER} working")
    again = scene.gateway.ensure_comment(number, MARKER, f"{MARKER} done")
    assert again.id == first.id
    assert [c.body for c in scene.issue.comments] == [f"{MARKER} done"]


def test_a_locked_conversation_takes_no_comment_and_says_so(scene: Scene) -> None:
    scene.ada.locks(scene.issue)
    with pytest.raises(NotAllowed, match="locked"):
        scene.gateway.ensure_comment(scene.issue.number, MARKER, MARKER)


def test_branches_and_files(scene: Scene) -> None:
    sha = scene.branch()
    assert scene.gateway.branch_sha("aider/issue-1") == sha
    assert scene.gateway.branch_sha("aider") is None
    assert scene.gateway.get_file("pump.py", "aider/issue-1") == b"leak = False\n"
    assert scene.gateway.get_file(".github/drydock.yml", "main") is None


def test_an_empty_repository_has_no_branch(scene: Scene) -> None:
    empty = scene.hub.create_repo("octo", "empty")
    scene.hub.install(scene.app, empty)
    handle = RepoHandle(scene.installation.id, empty.id, "octo", "empty")
    with GitHubGateway(handle, scene.tokens) as gateway:
        assert gateway.branch_sha("main") is None


@pytest.mark.parametrize("after", [False, True])
def test_one_draft_pull_request_whatever_goes_wrong(scene: Scene, after: bool) -> None:
    sha = scene.branch()
    scene.hub.faults.server_error("POST", r"/pulls$", after=after)
    wish: dict[str, Any] = {"head": "aider/issue-1", "base": "main", "title": "Stop the leak"}
    pull = scene.gateway.ensure_pull(**wish, body="Fixes #1")
    assert (pull.draft, pull.head_sha, pull.base_ref) == (True, sha, "main")
    assert (pull.author, pull.head_repo_id) == ("drydock[bot]", scene.repo.id)
    again = scene.gateway.ensure_pull(**wish, body="Fixes #1, really")
    assert (again.number, again.body) == (pull.number, "Fixes #1, really")
    assert len(scene.repo.pulls) == 1
    assert scene.gateway.get_pull(pull.number) == again
    scene.gateway.add_labels(pull.number, "aider")
    assert scene.gateway.get_issue(pull.number).is_pull_request


def test_a_repository_without_drafts_gets_an_ordinary_pull_request(scene: Scene) -> None:
    scene.repo.supports_drafts = False
    scene.branch()
    pull = scene.gateway.ensure_pull(head="aider/issue-1", base="main", title="t", body="b")
    assert (pull.draft, pull.draft_unsupported) == (False, True)


def test_a_pull_request_without_commits_is_refused_in_githubs_words(scene: Scene) -> None:
    with pytest.raises(Invalid, match="head"):
        scene.gateway.ensure_pull(head="aider/nothing", base="main", title="t", body="b")


def test_a_closed_pull_request_is_not_taken_for_an_open_one(scene: Scene) -> None:
    scene.branch()
    wish: dict[str, Any] = {"head": "aider/issue-1", "base": "main", "title": "t", "body": "b"}
    first = scene.gateway.ensure_pull(**wish)
    assert scene.gateway.update_pull(first.number, state="closed").state == "closed"
    assert scene.gateway.find_pull("aider/issue-1") is None
    assert scene.gateway.ensure_pull(**wish).number != first.number


def test_an_inline_comment_is_answered_once(scene: Scene) -> None:
    scene.branch()
    made = scene.gateway.ensure_pull(head="aider/issue-1", base="main", title="t", body="b")
    pull = next(p for p in scene.repo.pulls if p.number == made.number)
    remark = scene.ada.comments_on_line(pull, "pump.py", 1, "/aider why?")
    scene.hub.faults.connection_reset("POST", r"/replies$", after=True)
    for _ in range(2):
        reply = scene.gateway.create_reply(pull.number, remark.id, MARKER, f"{MARKER} since")
    assert (reply.in_reply_to, reply.path) == (remark.id, "pump.py")
    found = scene.gateway.list_review_comments(pull.number)
    assert [(c.author, c.line) for c in found] == [("ada", 1), ("drydock[bot]", 1)]
    scene.gateway.react_to_review_comment(remark.id, "eyes")
    assert [r.content for r in remark.reactions] == ["eyes"]


def test_one_check_run_from_queued_to_concluded(scene: Scene) -> None:
    wish = CheckRunWish(
        name="Drydock",
        head_sha=scene.gateway.branch_sha("main") or "",
        external_id="R1",
        status="in_progress",
        title="Working",
        summary="Aider is at it.",
    )
    scene.hub.faults.server_error("POST", r"/check-runs$", after=True)
    made = ensure_check_run(scene.gateway, wish)
    assert ensure_check_run(scene.gateway, wish) == made
    done = CheckRunWish(
        name=wish.name,
        head_sha=wish.head_sha,
        external_id=wish.external_id,
        status="completed",
        conclusion="success",
        title="Published",
        summary="See the pull request.",
    )
    ended = ensure_check_run(scene.gateway, done)
    assert (ended.id, ended.status, ended.conclusion) == (made.id, "completed", "success")
    assert update_check_run(scene.gateway, made.id, done) == ended
    assert len(scene.repo.check_runs) == 1


def test_a_check_runs_annotations_are_there_once_and_its_buttons_change(scene: Scene) -> None:
    working = CheckRunWish(
        name="Drydock",
        head_sha=scene.gateway.branch_sha("main") or "",
        external_id="R1",
        status="in_progress",
        title="Working",
        summary="Aider is at it.",
        buttons=(CheckButton("Stop", "End this run", "stop"),),
    )
    note = CheckAnnotation("ci.yml", "failure", "workflows", "no workflow is changed")
    refused = replace(
        working,
        status="completed",
        conclusion="failure",
        title="Refused",
        annotations=(note,),
        buttons=(CheckButton("Retry", "Do it once more", "retry"),),
    )
    made = ensure_check_run(scene.gateway, working)
    scene.hub.faults.server_error("PATCH", r"/check-runs/", after=True)
    for _ in range(2):
        update_check_run(scene.gateway, made.id, refused)
    (check,) = scene.repo.check_runs
    assert [each["path"] for each in check.annotations] == ["ci.yml"]
    assert [each["identifier"] for each in check.actions] == ["retry"]


def test_how_far_a_head_is_behind_an_oddly_named_base_is_told(scene: Scene) -> None:
    odd = "release/#1@(x)%2f\u00a0ü"
    head = scene.gateway.branch_sha("main") or ""
    assert commits_behind(scene.gateway, head, "main") == 0
    for text in ("one", "two"):
        scene.repo.commit({"notes.txt": text}, branch=odd)
    assert commits_behind(scene.gateway, head, odd) == 2
    with pytest.raises(NotFound):
        commits_behind(scene.gateway, head, "gone")


def test_a_contents_token_cannot_talk_and_a_conversation_token_cannot_read_contents(
    scene: Scene,
) -> None:
    handle = scene.gateway.handle
    scene.branch()
    contents = scene.tokens.contents_token(handle.installation_id, handle.repo_id)
    talk = scene.tokens.conversation_token(handle.installation_id, handle.repo_id)
    assert contents != talk
    swapped = GitHubGateway(handle, scene.tokens)
    swapped._requesters[Scope.CONVERSATION] = swapped._requester(Scope.CONTENTS_READ)
    with pytest.raises(NotAllowed):
        swapped.ensure_comment(scene.issue.number, MARKER, MARKER)
    swapped.close()


def test_a_token_is_useless_for_another_repository(scene: Scene) -> None:
    other = scene.hub.create_repo("octo", "other", {"a": b"a"}, private=True)
    scene.hub.install(scene.app, other)
    handle = scene.gateway.handle
    foreign = GitHubGateway(
        RepoHandle(handle.installation_id, handle.repo_id, "octo", "other"), scene.tokens
    )
    with pytest.raises(NotFound):
        foreign.get_repo()
    foreign.close()


def test_a_run_outlives_its_tokens(scene: Scene) -> None:
    scene.gateway.get_issue(scene.issue.number)
    scene.clock.now += 3 * 3600
    assert scene.gateway.get_issue(scene.issue.number).state == "open"


def test_a_token_that_somebody_revoked_is_replaced(scene: Scene) -> None:
    handle = scene.gateway.handle
    scene.gateway.get_issue(scene.issue.number)
    value = scene.tokens.conversation_token(handle.installation_id, handle.repo_id)
    kept = dict(scene.tokens._kept)
    assert scene.tokens.revoke(handle.installation_id, handle.repo_id)
    scene.tokens._kept = kept
    scene.gateway.react_to_issue(scene.issue.number, "eyes")
    assert scene.tokens.conversation_token(handle.installation_id, handle.repo_id) != value


@pytest.mark.parametrize("how", ["uninstall", "deselect", "suspend"])
def test_an_app_that_was_taken_away_has_lost_its_access(scene: Scene, how: str) -> None:
    other = scene.hub.create_repo("octo", "other", {"a": b"a"})
    scene.hub.install(scene.app, other)
    if how == "uninstall":
        scene.hub.uninstall(scene.app)
    elif how == "deselect":
        scene.hub.uninstall(scene.app, scene.repo)
    else:
        scene.hub.suspend(scene.app)
    with pytest.raises(AccessLost):
        scene.gateway.get_issue(scene.issue.number)


def test_access_lost_in_the_middle_of_a_run_is_told_as_that(scene: Scene) -> None:
    scene.gateway.get_issue(scene.issue.number)
    scene.hub.uninstall(scene.app)
    with pytest.raises(AccessLost):
        scene.gateway.get_issue(scene.issue.number)


def test_permissions_that_were_not_granted_are_named(tmp_path: Path, clock: Clock) -> None:
    with LocalGitHub(tmp_path / "small", clock=clock) as hub:
        repo = hub.create_repo("octo", "ship", {"a": b"a"})
        app = hub.create_app(
            "small", permissions={"metadata": "read", "contents": "read"}, events=()
        )
        tokens = TokenSource(
            api_url=hub.api_url,
            app_id=app.app_id,
            private_key=app.private_key_pem,
            clock=clock,
            sleep=clock.sleep,
        )
        installation = hub.install(app, repo)
        with pytest.raises(NotAllowed, match="checks: write"):
            tokens.conversation_token(installation.id, repo.id)
        assert tokens.contents_token(installation.id, repo.id)


def test_a_key_of_another_app_is_refused_with_what_to_check(scene: Scene, private_key: str) -> None:
    tokens = TokenSource(
        api_url=scene.hub.api_url,
        app_id=scene.app.app_id,
        private_key=private_key,
        clock=scene.clock,
        sleep=scene.clock.sleep,
    )
    with pytest.raises(NotAllowed, match="DRYDOCK_APP_ID"):
        tokens.app_info()


def test_a_host_whose_clock_is_wrong_is_told_to_look_at_it(scene: Scene) -> None:
    late = Clock()
    late.now = scene.clock.now + 7200
    tokens = TokenSource(
        api_url=scene.hub.api_url,
        app_id=scene.app.app_id,
        private_key=scene.app.private_key_pem,
        clock=late,
        sleep=late.sleep,
    )
    with pytest.raises(NotAllowed, match="clock"):
        tokens.app_info()


def test_a_renamed_repository_still_answers(scene: Scene) -> None:
    scene.hub.rename_repo(scene.repo, "boat")
    assert scene.gateway.get_repo().full_name == "octo/boat"
    scene.gateway.react_to_issue(scene.issue.number, "eyes")
    assert [r.content for r in scene.issue.reactions] == ["eyes"]


def test_rate_limits_are_waited_for_when_short_and_told_when_long(scene: Scene) -> None:
    scene.gateway.get_issue(scene.issue.number)
    scene.hub.faults.secondary_rate_limit("GET", r"/issues/1$", retry_after=3)
    assert scene.gateway.get_issue(scene.issue.number).number == 1
    reset = int(scene.clock.now) + 1800
    scene.hub.faults.primary_rate_limit("GET", r"/issues/1$", reset_at=reset)
    with pytest.raises(RateLimited) as caught:
        scene.gateway.get_issue(scene.issue.number)
    assert caught.value.reset_at == reset


def test_an_outage_is_told_after_a_few_tries(scene: Scene) -> None:
    scene.gateway.get_issue(scene.issue.number)
    fault = scene.hub.faults.server_error("GET", r"/issues/1$", times=99)
    with pytest.raises(GitHubUnavailable):
        scene.gateway.get_issue(scene.issue.number)
    assert fault.seen == 4


# --- teams ------------------------------------------------------------------------------------


def opened(scene: Scene) -> int:
    """Open a pull request and return its number."""
    scene.branch()
    return scene.gateway.ensure_pull(head="aider/issue-1", base="main", title="t", body="b").number


def test_who_is_in_a_team_is_asked_with_a_token_for_just_that(scene: Scene) -> None:
    scene.hub.accept_permissions(scene.app, scene.repo, members="read")
    crew = scene.hub.create_team("octo", "Crew", "ada")
    crew.members["bob"] = "pending"
    scene.hub.create_user("bob")
    scene.hub.create_user("eve")
    asked = {who: scene.gateway.is_in_team("octo", "crew", who) for who in ("ada", "bob", "eve")}
    assert asked == {"ada": True, "bob": False, "eve": False}
    assert not scene.gateway.is_in_team("octo", "none", "ada")
    assert not scene.gateway.is_in_team("octo", "crew", "ghost")
    held = [t.permissions for t in scene.hub.world.tokens.values() if "members" in t.permissions]
    assert held == [{"members": "read", "metadata": "read"}]


def test_a_team_cannot_be_asked_about_without_the_permission(scene: Scene) -> None:
    scene.hub.create_team("octo", "Crew", "ada")
    with pytest.raises(NotAllowed, match="members: read"):
        scene.gateway.is_in_team("octo", "crew", "ada")


def test_people_and_teams_are_asked_for_a_review(scene: Scene) -> None:
    scene.hub.accept_permissions(scene.app, scene.repo, members="read")
    crew = scene.hub.create_team("octo", "Crew")
    crew.grant(scene.repo, "read")
    number = opened(scene)
    for _ in range(2):
        scene.gateway.request_reviewers(number, ["ada"], ["crew"])
    (pull,) = scene.repo.pulls
    assert (pull.requested_reviewers, pull.requested_teams) == ([scene.ada.user], [crew])


def test_people_are_asked_for_a_review_without_a_further_permission(scene: Scene) -> None:
    scene.gateway.request_reviewers(opened(scene), ["ada"])
    assert scene.repo.pulls[0].requested_reviewers == [scene.ada.user]


def test_one_stranger_among_the_reviewers_refuses_them_all(scene: Scene) -> None:
    scene.hub.create_user("eve")
    number = opened(scene)
    with pytest.raises(Invalid, match="may only be requested from collaborators"):
        scene.gateway.request_reviewers(number, ["ada", "eve"])
    with pytest.raises(NotAllowed, match="members: read"):
        scene.gateway.request_reviewers(number, ["ada"], ["crew"])
    assert scene.repo.pulls[0].requested_reviewers == []
