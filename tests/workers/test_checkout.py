"""Mirrors and bundles, against real repositories and a real smart HTTP server."""

from __future__ import annotations

import errno
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.workers.conftest import OUT, Repo, link, submodule
from workers.checkout import (
    BASE_REF,
    MAX_PACKS,
    Checkout,
    CheckoutFailed,
    CheckoutTrouble,
    EmptyRepository,
    MirrorLock,
    NoSuchBranch,
    Source,
    base_of,
    check_out,
    fetch_mirror,
    lock_mirror,
)
from workers.git import Git, HttpAuth
from workers.objects import UnreadableBlob, list_tree, read_blob


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def source(server_repo: Repo) -> Source:
    return Source(server_repo.path.as_uri(), 7)


def done(
    git: Git, state: Path, source: Source, branch: str = "main", **options: Any
) -> Checkout | EmptyRepository | NoSuchBranch:
    state.mkdir(exist_ok=True)
    with lock_mirror(state, source) as lock:
        return check_out(git, lock, branch, state / "in.bundle", **options)


def taken(*args: Any, **options: Any) -> Checkout:
    checkout = done(*args, **options)
    assert isinstance(checkout, Checkout)
    return checkout


def test_a_bundle_of_the_base_is_made(
    git: Git, state: Path, source: Source, server_repo: Repo, make_repo: Callable[[str], Repo]
) -> None:
    checkout = taken(git, state, source)
    assert checkout.base_sha == server_repo.read("main")
    assert checkout.mirror == state / "mirrors" / "local" / "7.git"
    clone = make_repo("clone")
    clone.git("fetch", "-q", str(checkout.bundle.path), f"{BASE_REF}:refs/heads/x")
    assert clone.read("x") == checkout.base_sha
    assert checkout.bundle.shallow == ()


def test_a_second_checkout_brings_what_is_new(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    first = taken(git, state, source)
    new = server_repo.commit({b"b": b"2"}, parents=[first.base_sha], ref="refs/heads/main")
    assert taken(git, state, source).base_sha == new


def test_a_forced_push_and_a_deleted_branch_are_followed(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    server_repo.git("update-ref", "refs/heads/topic", "main")
    taken(git, state, source, branch="topic")
    server_repo.git("update-ref", "-d", "refs/heads/topic")
    new = server_repo.commit({b"z": b"other root"}, ref="refs/heads/topic/deeper")
    server_repo.git("update-ref", "refs/heads/main", new)
    assert taken(git, state, source).base_sha == new
    assert done(git, state, source, "topic") == NoSuchBranch("topic")


def test_an_empty_repository_is_said(
    git: Git, state: Path, make_repo: Callable[[str], Repo]
) -> None:
    empty = Source(make_repo("empty.git").path.as_uri(), 8)
    assert done(git, state, empty) == EmptyRepository()
    assert done(git, state, empty) == EmptyRepository()


@pytest.mark.parametrize("name", ["nope", "../main", "main~1", "-x", "main^{tree}", "@{-1}"])
def test_a_missing_or_odd_branch_is_said(git: Git, state: Path, source: Source, name: str) -> None:
    assert done(git, state, source, name) == NoSuchBranch(name)


def test_another_default_branch_than_main_works(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    sha = server_repo.commit({b"t": b"t"}, ref="refs/heads/trunk/é")
    assert taken(git, state, source, "trunk/é").base_sha == sha


def test_a_frozen_commit_is_bundled_though_the_branch_moved_on(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    frozen = server_repo.read("main")
    server_repo.commit({b"b": b"2"}, parents=[frozen], ref="refs/heads/main")
    assert taken(git, state, source, sha=frozen).base_sha == frozen


def test_a_frozen_commit_that_no_branch_holds_is_asked_for(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    lost = server_repo.commit({b"b": b"2"})
    server_repo.git("update-ref", "refs/pull/1/head", lost)
    assert taken(git, state, source, sha=lost).base_sha == lost


def test_a_frozen_commit_that_is_gone_is_said(git: Git, state: Path, source: Source) -> None:
    with pytest.raises(CheckoutFailed) as failed:
        done(git, state, source, sha="1" * 40)
    assert failed.value.trouble is CheckoutTrouble.NOT_FOUND


def test_a_shallow_bundle_can_be_unpacked_with_its_list(
    git: Git, state: Path, source: Source, server_repo: Repo, make_repo: Callable[[str], Repo]
) -> None:
    tip = server_repo.read("main")
    for number in range(5):
        tip = server_repo.commit({b"n": b"%d" % number}, parents=[tip], ref="refs/heads/main")
    checkout = taken(git, state, source, depth=2)
    assert len(checkout.bundle.shallow) == 1
    clone = make_repo("clone")
    (clone.path / "shallow").write_text(checkout.bundle.shallow[0] + "\n")
    clone.git("bundle", "unbundle", str(checkout.bundle.path))
    clone.git("update-ref", "refs/heads/x", tip)
    assert clone.git("rev-list", "--count", "x") == "2"
    full = taken(git, state, source)
    assert full.bundle.shallow == ()
    clone = make_repo("clone2")
    clone.git("fetch", "-q", str(full.bundle.path), f"{BASE_REF}:refs/heads/x")
    assert clone.git("rev-list", "--count", "x") == "6"


# ---- broken, full, busy ----------------------------------------------------------------------


def spoil_pack(mirror: Path) -> None:
    pack = next(mirror.glob("objects/pack/*.pack"))
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:40] + b"\0" * 40)


def remove_objects(mirror: Path) -> None:
    for file in mirror.glob("objects/pack/*"):
        file.unlink()


def remove_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def spoil_ref(mirror: Path) -> None:
    (mirror / "packed-refs").write_text("nonsense\n")


@pytest.mark.parametrize("spoil", [spoil_pack, remove_objects, remove_head, spoil_ref])
def test_a_broken_mirror_is_made_anew(
    git: Git, state: Path, source: Source, spoil: Callable[[Path], None]
) -> None:
    first = taken(git, state, source)
    spoil(first.mirror)
    assert taken(git, state, source).base_sha == first.base_sha


def test_what_a_killed_fetch_left_is_no_hindrance(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    first = taken(git, state, source)
    (first.mirror / "refs" / "heads").mkdir(parents=True, exist_ok=True)
    (first.mirror / "refs" / "heads" / "main.lock").touch()
    (first.mirror / "objects" / "pack" / "tmp_pack_x").write_bytes(b"half")
    inode = first.mirror.stat().st_ino
    server_repo.commit({b"b": b"2"}, parents=[first.base_sha], ref="refs/heads/main")
    assert taken(git, state, source).mirror.stat().st_ino == inode


def test_half_of_a_first_clone_is_never_taken_for_a_mirror(
    git: Git, state: Path, source: Source
) -> None:
    half = state / "mirrors" / "local" / "7.new"
    half.mkdir(parents=True)
    (half / "junk").touch()
    assert taken(git, state, source).mirror.name == "7.git"
    assert not half.exists()


def test_many_packs_are_joined(
    git: Git, state: Path, source: Source, server_repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_PACKS >= 10
    monkeypatch.setattr("workers.checkout.MAX_PACKS", 2)
    for number in range(4):
        server_repo.commit({b"n": b"%d" % number}, ref=f"refs/heads/b{number}")
        mirror = taken(git, state, source).mirror
    assert len(list(mirror.glob("objects/pack/*.pack"))) <= 3


def test_a_full_disk_is_said_in_words(
    git: Git, state: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(CheckoutFailed, match="No space left") as failed:
        done(git, state, source)
    assert failed.value.trouble is CheckoutTrouble.DISK_FULL


def test_a_disk_that_fills_under_git_is_told_from_a_broken_mirror(
    git: Git, state: Path, source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = taken(git, state, source)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
    fake.chmod(0o755)
    monkeypatch.setattr("workers.git._PATH", str(fake.parent))
    with pytest.raises(CheckoutFailed) as failed:
        done(git, state, source)
    assert failed.value.trouble is CheckoutTrouble.DISK_FULL
    assert first.mirror.exists()


def test_one_mirror_has_one_holder(state: Path, source: Source) -> None:
    with (
        lock_mirror(state, source),
        pytest.raises(CheckoutFailed) as failed,
        lock_mirror(state, source, timeout_s=0.05),
    ):
        pass
    assert failed.value.trouble is CheckoutTrouble.BUSY


def test_two_checkouts_at_once_both_get_their_bundle(git: Git, state: Path, source: Source) -> None:
    state.mkdir()
    results: list[Any] = []

    def work(name: str) -> None:
        with lock_mirror(state, source) as lock:
            results.append(check_out(git, lock, "main", state / name))

    threads = [threading.Thread(target=work, args=(f"{n}.bundle",)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [isinstance(each, Checkout) for each in results] == [True] * 3


# ---- over HTTP -------------------------------------------------------------------------------


def test_the_token_opens_a_private_repository_and_stays_out_of_the_state(
    git: Git, state: Path, server_repo: Repo, serve: Callable[..., Any]
) -> None:
    token = secrets.token_hex(20)
    server = serve(token=token)
    auth = HttpAuth(server.url, token)
    checkout = taken(git, state, Source(f"{server.url}/o/r.git", 7, auth))
    assert checkout.mirror.parent.name == server.url.removeprefix("http://").replace(":", "_")
    for path in state.rglob("*"):
        if path.is_file():
            assert not any(each.encode() in path.read_bytes() for each in auth.secrets())


def trouble(git: Git, state: Path, url: str, auth: HttpAuth | None = None) -> CheckoutTrouble:
    with pytest.raises(CheckoutFailed) as failed:
        done(git, state, Source(url, 7, auth))
    assert auth is None or auth.token not in str(failed.value)
    return failed.value.trouble


def test_a_rejected_token_is_a_question_of_access(
    git: Git, state: Path, server_repo: Repo, serve: Callable[..., Any]
) -> None:
    server = serve(token=secrets.token_hex(20))
    auth = HttpAuth(server.url, secrets.token_hex(20))
    assert trouble(git, state, f"{server.url}/o/r.git", auth) is CheckoutTrouble.ACCESS
    assert trouble(git, state, f"{server.url}/o/r.git") is CheckoutTrouble.ACCESS


def test_a_forbidden_repository_is_a_question_of_access(
    git: Git, state: Path, server_repo: Repo, serve: Callable[..., Any]
) -> None:
    server = serve(denied=True)
    assert trouble(git, state, f"{server.url}/o/r.git") is CheckoutTrouble.ACCESS


def test_a_missing_repository_is_said(
    git: Git, state: Path, server_repo: Repo, serve: Callable[..., Any]
) -> None:
    assert trouble(git, state, f"{serve().url}/o/x.git") is CheckoutTrouble.NOT_FOUND


def test_a_server_that_is_not_there_is_said(git: Git, state: Path) -> None:
    assert trouble(git, state, "http://127.0.0.1:1/o/r.git") is CheckoutTrouble.UNREACHABLE


def test_an_unreachable_server_does_not_cost_the_mirror(
    git: Git, state: Path, server_repo: Repo, serve: Callable[..., Any]
) -> None:
    server = serve()
    url = f"{server.url}/o/r.git"
    mirror = taken(git, state, Source(url, 7)).mirror
    server.denied = True
    assert trouble(git, state, url) is CheckoutTrouble.ACCESS
    assert mirror.exists()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://github.example/o/r.git", "github.example"),
        ("https://user@Git.Example:8443/o/r", "git.example_8443"),
        ("https://../x", "local"),
        ("file:///x", "local"),
    ],
)
def test_a_host_becomes_a_plain_folder_name(url: str, host: str) -> None:
    assert Source(url, 1).host == host


# ---- trees -----------------------------------------------------------------------------------

ODD = {
    b"caf\xe9.txt": b"latin-1 name\n",
    "日本.txt".encode(): b"utf-8 name\n",
    b"new\nline": b"1",
    b'quo"te\\': b"2",
    b"crlf.txt": b"a\r\nb\r\n",
    b" lead/ trail ": b"3",
}


def test_names_are_bytes_whatever_they_hold(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    server_repo.commit(ODD, ref="refs/heads/main")
    checkout = taken(git, state, source)
    entries = list_tree(git, checkout.mirror, checkout.base_sha)
    assert {entry.path for entry in entries} == set(ODD)


def test_three_thousand_files_are_listed(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    stream = b"commit refs/heads/main\ncommitter A <a@b.c> 1 +0000\ndata 0\n"
    for number in range(3_000):
        stream += b"M 100644 inline d%d/f%d\ndata 1\nx\n" % (number % 40, number)
    server_repo.git("fast-import", "--quiet", "--force", stdin=stream)
    checkout = taken(git, state, source)
    assert len(list_tree(git, checkout.mirror, checkout.base_sha)) == 3_000


@pytest.fixture
def mirror(git: Git, state: Path, source: Source, server_repo: Repo) -> tuple[Path, str]:
    server_repo.commit(
        {
            b".github/drydock.yml": b"test: make\n",
            b"link": link(b".github/drydock.yml"),
            b"sub": submodule(),
            b"crlf": b"a\r\n",
        },
        ref="refs/heads/main",
    )
    checkout = taken(git, state, source)
    return checkout.mirror, checkout.base_sha


def test_one_file_is_read(git: Git, mirror: tuple[Path, str]) -> None:
    assert read_blob(git, *mirror, ".github/drydock.yml", 100) == b"test: make\n"
    assert read_blob(git, *mirror, "crlf", 100) == b"a\r\n"


@pytest.mark.parametrize("path", ["nope", ".github/nope", "crlf/x", ":(glob)*", "*"])
def test_a_file_that_is_not_there_is_none(git: Git, mirror: tuple[Path, str], path: str) -> None:
    assert read_blob(git, *mirror, path, 100) is None


@pytest.mark.parametrize("path", ["link", "sub", ".github"])
def test_what_is_no_regular_file_is_not_read(git: Git, mirror: tuple[Path, str], path: str) -> None:
    with pytest.raises(UnreadableBlob, match="not a regular file"):
        read_blob(git, *mirror, path, 100)


def test_a_file_beyond_the_cap_is_not_read(git: Git, mirror: tuple[Path, str]) -> None:
    with pytest.raises(UnreadableBlob, match="longer than 3 bytes"):
        read_blob(git, *mirror, ".github/drydock.yml", 3)


@pytest.mark.parametrize("sha", ["main", "-x", "HEAD", "", "1" * 39])
def test_only_full_object_names_are_taken(git: Git, mirror: tuple[Path, str], sha: str) -> None:
    with pytest.raises(ValueError, match="not a full object name"):
        list_tree(git, mirror[0], sha)


def test_history_with_old_flaws_is_still_fetched(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    blob = server_repo.blob(b"x")
    raw = b"0100644 padded\0" + bytes.fromhex(blob)
    tree = server_repo.git("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw)
    sha = server_repo.commit(tree=tree, ref="refs/heads/main")
    assert taken(git, state, source).base_sha == sha


def test_an_attack_in_history_is_not_fetched(
    git: Git, state: Path, source: Source, server_repo: Repo
) -> None:
    evil = server_repo.raw_tree([(b".git", link(b"x"))])
    server_repo.commit(tree=evil, ref="refs/heads/main")
    with pytest.raises(CheckoutFailed, match="hasDotgit") as failed:
        done(git, state, source)
    assert failed.value.trouble is CheckoutTrouble.BROKEN


def test_a_lock_is_a_value_that_functions_demand(git: Git, state: Path, source: Source) -> None:
    with lock_mirror(state, source) as lock:
        assert isinstance(lock, MirrorLock)
        path = fetch_mirror(git, lock)
        assert isinstance(base_of(git, path, "main"), str)
    assert OUT.startswith("refs/heads/")
