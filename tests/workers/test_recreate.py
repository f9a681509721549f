"""Our commits on the machine's trees."""

from __future__ import annotations

from pathlib import Path

from tests.workers.conftest import Repo
from tests.workers.gate.conftest import Yard, yard
from workers.gate import Quarantine
from workers.guest_repo import Identity
from workers.recreate import (
    OUR_REF,
    FileStat,
    NewCommit,
    Signature,
    read_diff,
    read_stats,
    recreate_commits,
)

__all__ = ["yard"]

SIGNATURE = Signature(
    author=Identity("drydock[bot]", "bot@example.com"),
    at=1_750_000_000,
    co_author=Identity("Ann <x>", "ann@example.com"),
    trailers={"Drydock-Run": "run-1"},
)


def recreated(yard: Yard) -> tuple[Repo, tuple[NewCommit, ...]]:
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    made = recreate_commits(yard.git, taken, SIGNATURE)
    return Repo(taken.git_dir), made


def test_commits_keep_tree_and_order_and_take_our_name(yard: Yard) -> None:
    one = yard.change({b"a.txt": b"2\n"}, "First")
    two = yard.change({b"caf\xe9": b"3\r\n"}, "Second\n\nWhy.\n\nCo-authored-by: Evil <e@e.e>")
    repo, made = recreated(yard)
    assert [(each.source, each.subject) for each in made] == [(one, "First"), (two, "Second")]
    assert repo.read(OUR_REF) == made[-1].sha
    assert repo.read(f"{made[0].sha}^") == yard.base
    assert repo.read(f"{made[1].sha}^") == made[0].sha
    for new in made:
        assert repo.read(f"{new.sha}^{{tree}}") == repo.read(f"{new.source}^{{tree}}")
    assert repo.git("cat-file", "commit", made[1].sha).split("\n", 2)[2] == (
        "author drydock[bot] <bot@example.com> 1750000000 +0000\n"
        "committer drydock[bot] <bot@example.com> 1750000000 +0000\n\n"
        "Second\n\nWhy.\n\n"
        "Co-authored-by: Ann x <ann@example.com>\nDrydock-Run: run-1"
    )


def test_the_same_inputs_give_the_same_commits(yard: Yard) -> None:
    yard.change({b"a.txt": b"2\n"})
    taken = yard.take()
    assert isinstance(taken, Quarantine)
    first = recreate_commits(yard.git, taken, SIGNATURE)
    assert recreate_commits(yard.git, taken, SIGNATURE) == first


def test_commits_that_change_nothing_are_dropped(yard: Yard) -> None:
    yard.change({}, "empty")
    kept = yard.change({b"a.txt": b"2\n"}, "kept")
    yard.change({}, "empty again")
    _, made = recreated(yard)
    assert [each.source for each in made] == [kept]


def test_nothing_but_empty_commits_is_no_change(yard: Yard) -> None:
    yard.change({}, "empty")
    repo, made = recreated(yard)
    assert made == ()
    assert repo.read(OUR_REF) == yard.base


def test_a_commit_without_words_is_named_by_its_change(yard: Yard) -> None:
    yard.change({b"src/app.py": b"2\n"}, "(no commit message provided)")
    yard.change({b"x": b"1", b"y": b"2"}, "")
    yard.change({b"@evil #12": b"1"}, "")
    _, made = recreated(yard)
    assert [each.subject for each in made] == [
        "Change src/app.py",
        "Change 2 files",
        "Change _evil _12",
    ]


def test_a_message_in_another_encoding_becomes_utf_8(yard: Yard) -> None:
    tree = yard.guest.tree({b"a": b"1"})
    yard.tip = yard.guest.commit(
        tree=tree, parents=[yard.base], message=b"Caf\xe9", encoding="ISO-8859-1"
    )
    repo, made = recreated(yard)
    assert made[0].subject == "Café"
    assert "encoding" not in repo.git("cat-file", "commit", made[0].sha)


def test_extra_headers_and_signatures_do_not_come_along(yard: Yard) -> None:
    tree = yard.guest.tree({b"a": b"1"})
    raw = (
        f"tree {tree}\nparent {yard.base}\nauthor A <a@b.c> 1 +0000\n"
        "committer A <a@b.c> 1 +0000\ngpgsig -----BEGIN\n x\n\nhi\n"
    ).encode()
    yard.tip = yard.guest.git("hash-object", "-w", "-t", "commit", "--stdin", stdin=raw)
    repo, made = recreated(yard)
    assert "gpgsig" not in repo.git("cat-file", "commit", made[0].sha)


def test_lines_are_counted_by_file(yard: Yard) -> None:
    yard.change({b"a.txt": b"one\ntwo\n", b"bin\xff": b"\0\1"}, drop=[b"src/app.py"])
    repo, made = recreated(yard)
    assert read_stats(yard.git, repo.path, yard.base, made[-1].sha) == (
        FileStat("a.txt", 1, 0),
        FileStat("bin\\xff", None, None),
        FileStat("src/app.py", 0, 1),
    )


def test_a_diff_is_text_fit_to_be_shown(yard: Yard) -> None:
    yard.change({b"a.txt": b"one\r\nt\two\x1b[31m\xe2\x80\xae\n"})
    repo, made = recreated(yard)
    diff = read_diff(yard.git, repo.path, yard.base, made[-1].sha, 10_000)
    assert "+t\two\\x1b[31m\\u202e" in diff.text
    assert not diff.truncated


def test_a_long_diff_is_cut_at_a_line(yard: Yard) -> None:
    yard.change({b"a.txt": b"line\n" * 5_000})
    repo, made = recreated(yard)
    diff = read_diff(yard.git, repo.path, yard.base, made[-1].sha, 1_000)
    assert diff.truncated
    assert len(diff.text) <= 1_000
    assert diff.text.endswith("+line\n")


def test_attributes_of_the_tree_run_no_program(yard: Yard, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    yard.guest.git("config", "diff.evil.textconv", f"touch {mark}")
    yard.change({b".gitattributes": b"* diff=evil filter=evil\n", b"a.txt": b"2\n"})
    repo, made = recreated(yard)
    assert "+2" in read_diff(yard.git, repo.path, yard.base, made[-1].sha, 10_000).text
    assert not mark.exists()
