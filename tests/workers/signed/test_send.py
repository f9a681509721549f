"""Commits that GitHub makes from ours: same trees, order and words, and one ref."""

from __future__ import annotations

import pytest

from app.github.errors import GitHubUnavailable, Invalid, NotAllowed, NotFound
from tests.workers.conftest import Files, Node, link, submodule
from tests.workers.signed.conftest import BASE, BRANCH, Yard
from workers.push import Pushed, PushRejected, PushTrouble
from workers.signed import make, plan
from workers.signed.send import name_refusal


def without(*paths: bytes) -> dict[bytes, bytes | Node]:
    return {path: what for path, what in BASE.items() if path not in paths}


def pushed(result: object) -> Pushed:
    assert isinstance(result, Pushed), result
    return result


def rejected(result: object) -> PushRejected:
    assert isinstance(result, PushRejected), result
    return result


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({**BASE, b"a.txt": b"two\n"}, id="text changed"),
        pytest.param({**BASE, b"new/x/y.txt": b""}, id="empty file in new folders"),
        pytest.param({**BASE, b"logo.png": b"\x89PNG\0\xff"}, id="binary"),
        pytest.param({**BASE, b"crlf.txt": b"a\r\nb\r\r\n\xef\xbb\xbf"}, id="odd line ends"),
        pytest.param({**BASE, b"nul.txt": b"a\0b"}, id="text with NUL"),
        pytest.param({**BASE, b"latin.txt": b"caf\xe9\n"}, id="not UTF-8"),
        pytest.param({**BASE, b"a.txt": Node("100755", b"one\n")}, id="executable now"),
        pytest.param({**BASE, b"run.sh": b"#!/bin/sh\n"}, id="no longer executable"),
        pytest.param({**BASE, b"link": link(b"src/b.py")}, id="link"),
        pytest.param({**BASE, b"lib": submodule()}, id="submodule"),
        pytest.param(without(b"a.txt"), id="file gone"),
        pytest.param(without(b"src/b.py", b"src/deep/c.bin"), id="folder gone"),
        pytest.param({**without(b"a.txt"), b"moved.txt": b"one\n"}, id="moved"),
        pytest.param({**without(b"a.txt"), b"a.txt/in.txt": b"x"}, id="folder for file"),
        pytest.param(
            {**without(b"src/b.py", b"src/deep/c.bin"), b"src": b"x"}, id="file for folder"
        ),
        pytest.param({b"a.txt/only.txt": b"x"}, id="nothing left but a folder for a file"),
        pytest.param({b"other.txt": b"x"}, id="all replaced"),
        pytest.param({}, id="nothing left"),
        pytest.param({**BASE, "straße/日本.txt".encode(): b"x"}, id="names in UTF-8"),
        pytest.param({**BASE, b'q"uote\\d\n.txt': b"x"}, id="names to be quoted"),
    ],
)
def test_each_tree_comes_out_byte_equal(yard: Yard, files: Files) -> None:
    passed = yard.made(files)
    done = pushed(yard.send(passed))
    there = yard.repo.git.commit(done.sha)
    assert there.tree == yard.here.read(f"{passed.head_sha}^{{tree}}")
    assert there.parents == (yard.base,)
    assert yard.repo.git.refs()[BRANCH] == done.sha
    assert done.made == (done.sha,)
    assert done.unsigned == ""
    assert yard.repo.world.signed.keys() == {done.sha}


def test_commits_keep_their_number_order_and_words(yard: Yard) -> None:
    trees: list[Files] = [{**BASE, b"n.txt": str(n).encode()} for n in (1, 2, 1)]
    passed = yard.made(*trees)
    done = pushed(yard.send(passed))
    there = yard.repo.git.commits(yard.base, done.sha)
    assert [each.sha for each in there] == list(done.made)
    assert [each.message for each in there] == [
        f"Step {n}\n\nWhy.\n\nDrydock-Run: r1" for n in range(3)
    ]
    ours = [yard.here.read(f"{each.sha}^{{tree}}") for each in passed.commits]
    assert [each.tree for each in there] == ours
    assert {each.author.name for each in there} == {"drydock[bot]"}


def test_a_tree_grows_from_nothing(yard: Yard) -> None:
    passed = yard.made({}, {b"new.txt": b"x"})
    done = pushed(yard.send(passed))
    assert yard.repo.git.commit(done.sha).tree == yard.here.read(f"{passed.head_sha}^{{tree}}")


def test_what_was_made_lies_in_the_quarantine_afterwards(yard: Yard) -> None:
    done = pushed(yard.send(yard.made({**BASE, b"n.txt": b"1"})))
    assert yard.here.git("cat-file", "-t", done.sha) == "commit"
    assert yard.here.read(f"{done.sha}^") == yard.base


def test_text_needs_no_request_of_its_own(yard: Yard) -> None:
    pushed(yard.send(yard.made({**BASE, b"1.txt": b"1", b"2.txt": b"2"})))
    assert [yard.posts(kind) for kind in ("blobs", "trees", "commits", "refs")] == [0, 1, 1, 1]


def test_content_that_is_there_is_not_brought_in_again(yard: Yard) -> None:
    moved = {**without(b"src/deep/c.bin"), b"moved.bin": b"\0\xff\0"}
    again = {**BASE, b"moved.bin": b"\0\xff\0"}
    pushed(yard.send(yard.made(moved, again)))
    assert yard.posts("blobs") == 0


def test_a_repeated_send_makes_nothing_again(yard: Yard) -> None:
    passed = yard.made({**BASE, b"n.txt": b"1"}, {**BASE, b"n.txt": b"2"})
    first = pushed(yard.send(passed))
    assert pushed(yard.send(passed)) == first
    assert yard.posts("commits") == 2
    refs = [ref for ref in yard.repo.git.refs() if ref.startswith("refs/heads/aider")]
    assert refs == [BRANCH]


def test_a_send_goes_on_from_commits_that_an_earlier_one_noted(yard: Yard) -> None:
    passed = yard.made({**BASE, b"n.txt": b"1"})
    first = pushed(yard.send(passed))
    noted = passed.__class__(passed.git_dir, first.sha, (), "", "", ())
    assert pushed(yard.send(noted)).sha == first.sha


def test_an_answer_that_was_lost_makes_no_second_ref(yard: Yard) -> None:
    yard.hub.faults.server_error("POST", "/git/refs$", after=True)
    done = pushed(yard.send(yard.made({**BASE, b"n.txt": b"1"})))
    assert yard.repo.git.refs()[BRANCH] == done.sha


def test_objects_are_asked_for_again_while_github_is_away(yard: Yard) -> None:
    for kind in ("blobs", "trees", "commits"):
        yard.hub.faults.server_error("POST", f"/git/{kind}$", after=True)
    passed = yard.made({**BASE, b"n.bin": b"\0"})
    done = pushed(yard.send(passed))
    assert len(yard.repo.git.commits(yard.base, done.sha)) == 1


def test_the_next_try_goes_on_where_github_made_the_last_one_wait(yard: Yard) -> None:
    files = {**BASE, **{b"%d.bin" % n: b"\0%d" % n for n in range(3)}}
    passed = yard.made(files, {**files, b"text.txt": b"x"})
    yard.hub.faults.server_error("POST", "/git/commits$", status=503, times=4)
    with pytest.raises(GitHubUnavailable):
        yard.send(passed)
    pushed(yard.send(passed))
    assert (yard.posts("blobs"), yard.posts("trees")) == (3, 2)
    assert BRANCH in yard.repo.git.refs()


def test_where_github_stays_away_that_is_said_as_such(yard: Yard) -> None:
    yard.hub.faults.server_error("POST", "/git/trees$", status=503, times=100)
    with pytest.raises(GitHubUnavailable):
        yard.send(yard.made({**BASE, b"n.txt": b"1"}))
    assert BRANCH not in yard.repo.git.refs()


def test_a_follow_up_moves_the_branch_on_from_the_value_expected(yard: Yard) -> None:
    done = pushed(yard.send(yard.made({**BASE, b"n.txt": b"1"}), "refs/heads/main", yard.base))
    assert yard.repo.git.refs()["refs/heads/main"] == done.sha
    assert yard.posts("refs") == 0


def test_a_branch_that_moved_on_is_left_alone(yard: Yard) -> None:
    passed = yard.made({**BASE, b"n.txt": b"1"})
    theirs = yard.repo.commit({"theirs.txt": b"x"}, branch="main")
    said = rejected(yard.send(passed, "refs/heads/main", yard.base))
    assert said.trouble is PushTrouble.MOVED
    assert yard.repo.git.refs()["refs/heads/main"] == theirs
    assert yard.posts("commits") == 0


def test_a_branch_that_moves_on_in_the_last_moment_is_left_alone(yard: Yard) -> None:
    passed = yard.made({**BASE, b"n.txt": b"1"})
    theirs: list[str] = []
    yard.hub.faults.add(
        "POST",
        "/git/commits$",
        after_effect=True,
        status=502,
        delay=lambda: theirs.append(yard.repo.commit({"theirs.txt": b"x"}, branch="main")),
    )
    said = rejected(yard.send(passed, "refs/heads/main", yard.base))
    assert said.trouble is PushTrouble.MOVED
    assert yard.repo.git.refs()["refs/heads/main"] == theirs[-1]


def test_a_branch_that_was_set_back_is_not_what_was_expected(yard: Yard) -> None:
    ahead = yard.repo.commit({"more.txt": b"x"}, branch="main")
    yard.here.git("fetch", "-q", str(yard.repo.git.path), "main")
    passed = yard.made({**BASE, b"more.txt": b"x", b"n.txt": b"1"}, on=ahead)
    yard.repo.git.update_ref("refs/heads/main", yard.base)
    said = rejected(yard.send(passed, "refs/heads/main", ahead))
    assert said.trouble is PushTrouble.MOVED
    assert yard.repo.git.refs()["refs/heads/main"] == yard.base


def test_a_branch_of_that_name_is_left_alone(yard: Yard) -> None:
    yard.repo.commit({"theirs.txt": b"x"}, branch="aider/issue-1")
    said = rejected(yard.send(yard.made({**BASE, b"n.txt": b"1"})))
    assert said.trouble is PushTrouble.MOVED


def test_a_branch_in_the_way_of_the_folder_is_told_as_such(yard: Yard) -> None:
    yard.repo.commit({"theirs.txt": b"x"}, branch="aider")
    said = rejected(yard.send(yard.made({**BASE, b"n.txt": b"1"})))
    assert said.trouble is PushTrouble.REF_CONFLICT


def test_workflows_need_a_permission_that_the_app_may_lack(yard: Yard) -> None:
    said = rejected(yard.send(yard.made({**BASE, b".github/workflows/x.yml": b"on: push\n"})))
    assert said.trouble is PushTrouble.PERMISSION


def test_commits_that_github_does_not_sign_are_told(yard: Yard) -> None:
    yard.repo.world.signs_commits = False
    done = pushed(yard.send(yard.made({**BASE, b"n.txt": b"1"})))
    assert done.unsigned == "unsigned"


def test_a_name_that_is_not_utf8_is_told_with_the_way_on(yard: Yard) -> None:
    said = rejected(yard.send(yard.made({**BASE, b"caf\xe9.txt": b"x"})))
    assert said.trouble is PushTrouble.UNFIT
    assert "is not UTF-8" in said.detail
    assert "set `signed_commits: false` in .github/drydock.yml" in said.detail
    assert sum(yard.posts(kind) for kind in ("blobs", "trees", "commits", "refs")) == 0


def test_a_file_that_githubs_api_does_not_take_is_told(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "MAX_BLOB_BYTES", 100)
    said = rejected(yard.send(yard.made({**BASE, b"big.txt": b"x" * 101})))
    assert said.trouble is PushTrouble.UNFIT
    assert "big.txt has 101 bytes" in said.detail
    assert yard.posts("trees") == 0


def test_more_requests_than_github_allows_are_not_made(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "MAX_REQUESTS", 3)
    files = {**BASE, **{b"%d.bin" % n: b"\0%d" % n for n in range(5)}}
    said = rejected(yard.send(yard.made(files)))
    assert said.trouble is PushTrouble.UNFIT
    assert yard.posts("blobs") == 3
    assert BRANCH not in yard.repo.git.refs()


def test_a_large_change_goes_in_several_requests(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MAX_ENTRIES", 4)
    files = {b"f/%02d.txt" % n: b"%d" % n for n in range(11)}
    passed = yard.made(files)
    done = pushed(yard.send(passed))
    assert yard.repo.git.commit(done.sha).tree == yard.here.read(f"{passed.head_sha}^{{tree}}")
    assert yard.posts("trees") == 4


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (Invalid(("Update is not a fast forward (422)",)), PushTrouble.MOVED),
        (Invalid(("Reference already exists (422)",)), PushTrouble.MOVED),
        (Invalid(("Reference does not exist (422)",)), PushTrouble.MOVED),
        (Invalid(("Repository rule violations found (422)", "x")), PushTrouble.PROTECTED),
        (Invalid(("Protected branch update failed (422)",)), PushTrouble.PROTECTED),
        (Invalid(("Reference cannot be created (422)",)), PushTrouble.REF_CONFLICT),
        (Invalid(("tree.path contains a malformed path component",)), PushTrouble.REJECTED),
        (NotAllowed("Resource not accessible by integration (403)"), PushTrouble.PERMISSION),
        (NotFound("Not Found (404)"), PushTrouble.GONE),
    ],
)
def test_each_refusal_has_its_meaning(error: Invalid, trouble: PushTrouble) -> None:
    assert name_refusal(error).trouble is trouble
