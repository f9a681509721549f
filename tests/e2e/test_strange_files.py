"""Repositories with strange names, endings and sizes: real git, real Aider, a real machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from demo.github import Issue, Repo
from demo.scenario import Edit, Scenario
from tests.harbour.harbour import BODY, FILES, RIGHT, WRONG, Harbour, fix

pytestmark = [pytest.mark.e2e, pytest.mark.machine]

LATIN = b"caf\xe9/r\xe9sum\xe9.txt"
LONG_BODY = f"{BODY}\n" + "And so on, and so on, and so on.\n" * 1_800
CRLF = WRONG.replace("\n", "\r\n")


@dataclass(frozen=True)
class Strange:
    harbour: Harbour
    issues: dict[str, Issue]


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strange]:
    """Both at once, each in a machine of its own."""
    many = {
        f"lib/part_{n // 100}/{n}.{'txt' if n % 10 else 'py'}": f"VALUE = {n}\n"
        for n in range(3_000)
    }
    edit = Edit("calc.py", "    return a - b\n", "    return a + b\n", commit="fix: Add")
    harbour = Harbour(
        tmp_path_factory.mktemp("strange") / "harbour",
        [Scenario("dos", (edit,), when="acme/dos"), fix()],
        provider="bubblewrap",
        drivers=2,
    )
    with harbour:
        dos = harbour.makes_repo("dos", {**FILES, "calc.py": CRLF, "other.txt": "a\r\nb\r\n"})
        add_raw_name(dos)
        big = harbour.makes_repo("big", {**FILES, **many})
        issues = {"dos": harbour.opens(dos), "big": harbour.opens(big, body=LONG_BODY)}
        for issue in issues.values():
            harbour.mona.labels(issue, "aider")
        harbour.settle()
        yield Strange(harbour, issues)


def add_raw_name(repo: Repo) -> None:
    """Commit a file whose name is no UTF-8, as a client on an old system would."""
    git, parent = repo.git, repo.git.heads()["main"]
    folder, name = LATIN.split(b"/")
    blob = git.run("hash-object", "-w", "--stdin", stdin=b"old\n").strip()
    inner = git.run("mktree", "-z", stdin=b"100644 blob " + blob + b"\t" + name + b"\0").strip()
    listed = git.run("ls-tree", "-z", parent)
    tree = git.run("mktree", "-z", stdin=listed + b"040000 tree " + inner + b"\t" + folder + b"\0")
    who = ("-c", "user.name=Old", "-c", "user.email=old@example.com")
    words = (*who, "commit-tree", tree.decode().strip(), "-p", parent, "-m", "Add an old name")
    git.run("update-ref", "refs/heads/main", git.text(*words))


def changed(strange: Strange, name: str) -> list[str]:
    pull = strange.harbour.pull_of(strange.issues[name])
    listed = pull.repo.git.text("diff", "--numstat", f"{pull.base_sha}..{pull.head_sha}")
    return listed.split()


def test_line_ends_stay_as_they_were_and_the_change_is_one_line(strange: Strange) -> None:
    assert "its tests pass" in strange.harbour.status_of(strange.issues["dos"])
    assert changed(strange, "dos") == ["1", "1", "calc.py"]
    pull = strange.harbour.pull_of(strange.issues["dos"])
    assert pull.repo.file("calc.py", pull.head_ref) == RIGHT.replace("\n", "\r\n").encode()


def test_a_name_that_is_no_utf8_is_carried_along_untouched(strange: Strange) -> None:
    pull = strange.harbour.pull_of(strange.issues["dos"])
    listed = pull.repo.git.run("ls-tree", "-r", "-z", "--name-only", pull.head_sha)
    assert LATIN in listed.split(b"\0")


def test_a_repository_of_3000_files_with_a_60000_character_issue_is_worked_on(
    strange: Strange,
) -> None:
    issue = strange.issues["big"]
    assert len(issue.body or "") > 58_000
    assert "its tests pass" in strange.harbour.status_of(issue)
    assert changed(strange, "big") == ["1", "1", "calc.py"]
