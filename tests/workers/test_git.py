"""The host's git: what it may not do, what it may not show, and how it ends."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.git import Git, GitFailed, HttpAuth, Limits, build_argv, printable

NETWORK = ("http", "https")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_output_is_returned_and_nothing_is_inherited(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    monkeypatch.setenv("GIT_TRACE", "1")
    result = git.attempt(["--version"])
    assert result.stdout.startswith(b"git version")
    assert result.stderr == ""


def test_a_failure_carries_the_command_the_status_and_the_words(git: Git) -> None:
    with pytest.raises(GitFailed) as failed:
        git.run(["rev-parse", "HEAD"])
    assert failed.value.argv == ("rev-parse", "HEAD")
    assert failed.value.exit_code == 128
    assert "not a git repository" in failed.value.stderr


def test_a_bare_repository_is_only_used_when_it_is_named(git: Git, server_repo: Any) -> None:
    assert git.attempt(["-C", str(server_repo.path), "log"]).exit_code == 128
    assert git.attempt(["log", "main"], git_dir=server_repo.path).exit_code == 0


def test_hooks_and_monitors_of_a_repository_do_not_run(
    git: Git, server_repo: Any, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    touch = f"touch {mark}"
    for name in ("reference-transaction", "post-update", "pre-push", "post-commit"):
        script(server_repo.path / "hooks" / name, touch)
    monitor = script(tmp_path / "monitor", touch)
    server_repo.git("config", "core.fsmonitor", str(monitor))
    server_repo.git("config", "core.hooksPath", str(server_repo.path / "hooks"))
    server_repo.git("config", "core.alternateRefsCommand", str(monitor))
    server_repo.git("config", "diff.external", str(monitor))
    git.run(["update-ref", "refs/heads/other", "main"], git_dir=server_repo.path)
    git.run(["diff-tree", "-p", "--root", "main"], git_dir=server_repo.path)
    assert not mark.exists()


def test_no_protocol_is_allowed_unless_it_is_asked_for(git: Git, server_repo: Any) -> None:
    argv = ["ls-remote", server_repo.path.as_uri()]
    assert "not allowed" in git.attempt(argv).stderr
    assert git.attempt(argv, protocols=("file",)).exit_code == 0


def test_the_ext_protocol_stays_off(git: Git, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    result = git.attempt(["ls-remote", f"ext::touch {mark}"], protocols=("file", "http"))
    assert "not allowed" in result.stderr
    assert not mark.exists()


def test_system_and_user_configuration_are_not_read(git: Git) -> None:
    git.home.mkdir(parents=True)
    (git.home / ".gitconfig").write_text("[user]\n name = Somebody\n")
    assert git.attempt(["config", "user.name"]).exit_code == 1


def test_a_pathspec_is_taken_literally(git: Git, server_repo: Any) -> None:
    argv = ["ls-tree", "main", "--", ":(glob)*"]
    assert git.run(argv, git_dir=server_repo.path) == b""


def test_time_is_limited_and_the_whole_group_ends(git: Git, tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    slow = f"alias.slow=!echo $$ > {mark}; sleep 600"
    started = time.monotonic()
    with pytest.raises(GitFailed) as failed:
        git.run(["-c", slow, "slow"], timeout_s=1.0)
    assert failed.value.timed_out
    assert failed.value.exit_code is None
    assert time.monotonic() - started < 20
    command_line = Path(f"/proc/{mark.read_text().strip()}/cmdline")
    while time.monotonic() - started < 20 and is_alive(command_line):
        time.sleep(0.01)  # an orphan's end is seen by nobody but its new parent
    assert not is_alive(command_line)


def is_alive(command_line: Path) -> bool:
    """Return whether the process still runs; one that only waits to be reaped has no arguments."""
    try:
        return command_line.read_bytes() != b""
    except OSError:
        return False


def test_output_is_limited(git: Git) -> None:
    endless = "alias.endless=!yes"
    with pytest.raises(GitFailed, match="gave more than 1000 bytes"):
        git.run(["-c", endless, "endless"], output_cap=1000)


def test_the_head_of_long_output_can_be_asked_for(git: Git) -> None:
    result = git.attempt(["-c", "alias.e=!yes", "e"], output_cap=10, head_only=True)
    assert (result.stdout, result.truncated) == (b"y\n" * 5, True)


def test_output_that_there_is_no_memory_for_is_never_taken_for_whole(
    git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_self: object, _pipe: object, _cap: int) -> None:
        raise MemoryError

    monkeypatch.setattr("workers.git._Call._keep_head", fail)
    with pytest.raises(MemoryError):
        git.run(["--version"])


@pytest.mark.parametrize(
    ("words", "is_memory"),
    [
        ("fatal: Out of memory, malloc failed (tried to allocate 9 bytes)", True),
        ("fatal: mmap failed: Cannot allocate memory", True),
        ("fatal: bad object", False),
    ],
)
def test_a_git_without_memory_says_so(words: str, is_memory: bool) -> None:
    assert GitFailed(["log"], 128, words).out_of_memory is is_memory


@pytest.mark.parametrize(("name", "ours"), [("TERM", True), ("INT", True), ("SEGV", False)])
def test_a_stop_of_the_service_is_the_hosts_doing_and_a_crash_is_not(
    git: Git, name: str, ours: bool
) -> None:
    with pytest.raises(GitFailed) as caught:
        git.run(["-c", f"alias.end=!kill -{name} $PPID; exec sleep 9", "end"])
    assert caught.value.ours is ours
    assert (caught.value.exit_code or 0) < 0


def test_memory_and_file_size_are_limited(git: Git, tmp_path: Path) -> None:
    target = tmp_path / "big"
    writes = f"alias.w=!head -c 2000000 /dev/zero > {target}"
    result = git.attempt(["-c", writes, "w"], limits=Limits(file_bytes=1_000_000))
    assert result.exit_code != 0
    assert target.stat().st_size <= 1_000_000


def test_a_git_that_is_not_there_is_said(git: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.git.build_argv", lambda *_: ["/nonexistent/git"])
    with pytest.raises(GitFailed, match="could not be started"):
        git.run(["--version"])


def test_what_git_says_is_shown_without_control_characters(git: Git) -> None:
    said = "alias.s=!printf 'a\\033[31mb\\n' >&2; exit 3"
    assert git.attempt(["-c", said, "s"]).stderr == "a\\x1b[31mb"


# ---- the token -------------------------------------------------------------------------------


def fetch(git: Git, server: Any, auth: HttpAuth | None) -> Any:
    return git.attempt(["ls-remote", f"{server.url}/o/r.git"], auth=auth, protocols=NETWORK)


def test_the_token_is_sent_to_its_host(
    git: Git, server_repo: Any, serve: Callable[..., Any]
) -> None:
    token = secrets.token_hex(20)
    server = serve(token=token)
    assert fetch(git, server, None).exit_code == 128
    assert fetch(git, server, HttpAuth(server.url, token)).exit_code == 0


def test_the_token_is_not_sent_to_another_host(
    git: Git, server_repo: Any, serve: Callable[..., Any]
) -> None:
    server, other = serve(), serve()
    auth = HttpAuth(other.url, secrets.token_hex(20))
    assert fetch(git, server, auth).exit_code == 0
    assert {given for _, given in server.requests} == {None}


def test_a_redirect_is_not_followed(git: Git, server_repo: Any, serve: Callable[..., Any]) -> None:
    thief = serve()
    server = serve(redirect_to=thief.url)
    assert fetch(git, server, HttpAuth(server.url, secrets.token_hex(20))).exit_code == 128
    assert thief.requests == []


def test_the_token_is_in_no_command_line_and_no_file(
    git: Git, server_repo: Any, serve: Callable[..., Any], tmp_path: Path
) -> None:
    token = secrets.token_hex(20)
    server = serve(token=token)
    auth = HttpAuth(server.url, token)
    seen: list[bytes] = []
    original = server.environ

    def look(handler: Any) -> dict[str, str]:  # in the middle of the fetch
        seen.extend(read_command_lines())
        return dict(original(handler))

    server.environ = look
    target = tmp_path / "copy.git"
    git.run(["init", "-q", "--bare", str(target)])
    git.run(
        ["fetch", "-q", f"{server.url}/o/r.git", "main:main"],
        git_dir=target,
        auth=auth,
        protocols=NETWORK,
    )
    assert any(b"remote-http" in line for line in seen)
    secret = [each.encode() for each in auth.secrets()]
    assert not [line for line in seen if any(each in line for each in secret)]
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert not any(each in path.read_bytes() for each in secret), path


def read_command_lines() -> list[bytes]:
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                lines.append((entry / "cmdline").read_bytes())
            except OSError:
                continue  # it has ended meanwhile
    return lines


def test_only_the_same_user_can_read_gits_environment(git: Git, tmp_path: Path) -> None:
    mark = tmp_path / "mode"
    git.run(["-c", f"alias.m=!stat -c %a /proc/self/environ > {mark}", "m"])
    assert mark.read_text().strip() == "400"


def test_a_token_that_git_repeats_is_taken_out(git: Git) -> None:
    auth = HttpAuth("http://127.0.0.1:1", secrets.token_hex(20))
    said = f"alias.s=!env >&2; echo {auth.token} >&2; exit 1"
    result = git.attempt(["-c", said, "s"], auth=auth)
    assert not any(each in result.stderr for each in auth.secrets())
    assert "[secret]" in result.stderr


def test_the_repr_of_a_token_does_not_show_it() -> None:
    token = secrets.token_hex(20)
    assert token not in repr(HttpAuth("http://127.0.0.1", token))


def test_a_command_line_names_the_repository_and_the_limits() -> None:
    argv = build_argv(["log"], Path("/r.git"), Limits(memory_bytes=5))
    assert argv == [
        *("prlimit", "--core=0", "--as=5", "--"),
        *("git", "--no-pager", "--literal-pathspecs", "--git-dir=/r.git", "log"),
    ]


# ---- showing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        ("é✓", "é✓"),
        (b"\xff", "\\xff"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\x1b", "a\\nb\\x1b"),
        ("a\u200bb", "a\\u200bb"),
    ],
)
def test_text_is_made_fit_to_be_shown(raw: str | bytes, shown: str) -> None:
    assert printable(raw) == shown


@given(st.text() | st.binary())
def test_shown_text_never_holds_a_control_character(raw: str | bytes) -> None:
    shown = printable(raw, 40)
    assert shown.isprintable()
    assert len(shown) <= 41


def test_the_environment_of_this_process_is_untouched(git: Git) -> None:
    before = dict(os.environ)
    git.run(["--version"])
    assert dict(os.environ) == before
    assert subprocess.run(["true"], check=False).returncode == 0
