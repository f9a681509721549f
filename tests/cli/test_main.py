"""Every command, whatever it meets, ends with one message that says what to do."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from sqlalchemy.exc import OperationalError

from app.settings import SettingsError
from cli.errors import guarded
from cli.main import drydock
from demo.stage import Stage
from sandbox.provider import ProviderFailed

ROOT = Path(__file__).parents[2]
SHA = "0123456789" * 4
# What each command is called with, where `./…` are files of the test's folder. A new command is
# added here.
CALLS: dict[str, list[str]] = {
    "demo": [],
    "try": ["./ship", "./ISSUE.md"],
    "up": [],
    "web": [],
    "worker": [],
    "beat": [],
    "runs ls": [],
    "runs show": ["r-1"],
    "runs verify": [SHA],
    "reap": ["--dry-run"],
    "template bake": [],
    "template list": [],
    "template show": [],
    "template rm": ["default"],
    "audit ls": [],
    "audit verify": [],
    "policy show": ["acme/ship"],
    "policy check": ["https://example.org"],
    "config check": ["./drydock.yml"],
    "doctor": ["--host-only"],
    "bench": [],
}
SERVERS = ("up", "web", "worker", "beat")
READ_THE_DATABASE = ("runs ls", "runs show", "runs verify", "reap", "up", "web", "worker")
# They show facts, or a state: for programs too.
SHOWING = (
    *("try", "runs ls", "runs show", "runs verify", "reap", "template bake", "template list"),
    *("template show", "template rm", "audit ls", "audit verify", "policy show", "policy check"),
    *("config check", "doctor"),
)


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*path, name))


COMMANDS = dict(leaves(drydock))
every_command = pytest.mark.parametrize("name", CALLS)

Call = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of an installation that could start."""
    with Stage(tmp_path_factory.mktemp("stage"), []) as stage:
        return stage.connection.environment


@pytest.fixture
def call(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    connected: dict[str, str],
) -> Call:
    """Run a command as `main` does, where everything is set; returns status and stderr."""
    for name in [name for name in os.environ if name.startswith(("DRYDOCK_", "OPENAI_", "KEEP"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    settings = {
        **connected,
        "DRYDOCK_STATE_DIR": str(tmp_path / "state"),
        "DRYDOCK_REDIS_URL": f"unix://{tmp_path}/gone.sock",
        "TMPDIR": str(tmp_path),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "ship").mkdir()
    (tmp_path / "ISSUE.md").write_text("# It leaks\n")
    (tmp_path / "drydock.yml").write_text("test: make test\n")

    def run(name: str, *extra: str) -> tuple[int, str]:
        argv = [*name.split(), *CALLS[name], *extra]
        status = guarded(lambda: drydock(argv, standalone_mode=False))
        said = capsys.readouterr().err
        assert "Traceback" not in said
        return status, said.strip()

    return run


def error_in(said: str) -> str:
    """The one message, which is the last thing said."""
    before, _, message = said.rpartition("Error: ")
    assert message, said
    assert "Error: " not in before
    return message.strip()


def test_every_command_is_gone_over_here() -> None:
    assert set(COMMANDS) == set(CALLS)


@every_command
def test_it_explains_itself(call: Call, name: str) -> None:
    assert call(name, "--help") == (0, "")


@every_command
def test_an_option_that_is_none_is_wrong_use(call: Call, name: str) -> None:
    status, said = call(name, "--nonsense")
    assert status == 2
    assert "--nonsense" in error_in(said)


@pytest.mark.parametrize("name", SHOWING)
def test_what_it_shows_can_be_had_as_json(name: str) -> None:
    options = {option for each in COMMANDS[name].params for option in each.opts}
    assert "--json" in options


@pytest.mark.parametrize(
    "name",
    [n for n, c in COMMANDS.items() if any("--config" in each.opts for each in c.params)],
)
def test_a_settings_file_that_is_not_there_is_named(call: Call, name: str) -> None:
    status, said = call(name, "--config", "gone.toml")
    assert status in (1, 2)
    assert "gone.toml" in error_in(said)


@pytest.mark.parametrize("name", [n for n in CALLS if not n.startswith(("template", "config"))])
def test_a_wrong_setting_is_named(call: Call, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRYDOCK_MEMORY_MIB", "plenty")
    status, said = call(name)
    assert status == 1
    assert "DRYDOCK_MEMORY_MIB" in error_in(said)


@every_command
def test_a_state_directory_that_cannot_be(
    call: Call, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRYDOCK_STATE_DIR", str(tmp_path / "file/state"))
    monkeypatch.setenv("DRYDOCK_GITHUB_API_URL", "http://127.0.0.1:1")
    status, said = call(name)
    if status != 0:  # some need none
        assert status == 1
        assert name == "doctor" or len(error_in(said).splitlines()) == 1


@pytest.mark.parametrize("name", READ_THE_DATABASE)
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE orders (id)", "tables of another program (orders)"),
        ("CREATE TABLE alembic_version (version_num)", ""),
        (None, "file is not a database"),
    ],
)
def test_a_database_that_is_not_ours(
    call: Call, name: str, tmp_path: Path, statement: str | None, words: str
) -> None:
    (tmp_path / "state").mkdir()
    path = tmp_path / "state/drydock.sqlite3"
    if statement is None:
        path.write_text("a diary, and no database at all\n" * 100)
    else:
        with sqlite3.connect(path) as database:
            database.execute(statement)
            if "alembic" in statement:
                database.execute("INSERT INTO alembic_version VALUES ('9999')")
                words = "belongs to a newer version of Drydock"
    status, said = call(name)
    assert status == 1
    assert words in error_in(said)


@pytest.mark.parametrize("name", ["up", "web"])
def test_an_address_that_is_taken(call: Call, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("DRYDOCK_BIND", f"127.0.0.1:{server.getsockname()[1]}")
        status, said = call(name)
    assert status == 1
    assert "Address already in use; choose another by DRYDOCK_BIND" in error_in(said)


@every_command
@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "stopped"),
        (click.Abort(), 130, "stopped"),
        (PermissionError(13, "Permission denied", "/a/b"), 1, "/a/b: Permission denied; see who"),
        (OSError(28, "No space left on device"), 1, "No space left on device; make room"),
        (ProviderFailed("no ptrace"), 1, "no ptrace"),
        (SettingsError(("DRYDOCK_X is wrong",)), 1, "DRYDOCK_X is wrong"),
        (OperationalError("SELECT", {}, Exception("server closed")), 1, "(server closed)"),
        (ZeroDivisionError("by zero"), 1, "a mistake in Drydock (ZeroDivisionError: by zero)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_whatever_happens_in_it_is_told_in_one_line(
    call: Call,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
    words: str,
) -> None:
    def happen(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(COMMANDS[name], "callback", happen)
    found, said = call(name)
    assert found == status
    assert words in said
    assert len(said.splitlines()) == 1


def test_a_mistakes_traceback_is_kept_in_a_file(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(COMMANDS["runs ls"], "callback", lambda **_: 1 / 0)
    _, said = call("runs ls")
    path = Path(said.split()[-1])
    assert "in <lambda>" in path.read_text()
    assert "ZeroDivisionError" in path.read_text()


def start(*argv: str, folder: Path, **pipes: int) -> subprocess.Popen[bytes]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-P", "-m", "cli", *argv]
    return subprocess.Popen(program, env=env, cwd=folder, **pipes)


def test_a_reader_that_goes_away_is_no_mistake(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = start("runs", "ls", folder=tmp_path, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 1


def test_ctrl_c_ends_it_with_130_and_one_word(tmp_path: Path) -> None:
    who = ["-c", "user.name=Mona", "-c", "user.email=mona@example.org"]
    subprocess.run(["git", "init", "--quiet", "ship"], cwd=tmp_path, check=True)
    commit = ["git", *who, "commit", "--quiet", "--allow-empty", "--message=Begin"]
    subprocess.run(commit, cwd=tmp_path / "ship", check=True)
    (tmp_path / "drydock.toml").write_text('model = "openai/m"\nmodel_api_key = "k"\n')
    pipe = subprocess.PIPE
    process = start("try", "ship", "-", folder=tmp_path, stdin=pipe, stdout=pipe, stderr=pipe)
    git_home = tmp_path / ".local/state/drydock/try/git-home"
    give_up = time.monotonic() + 60
    while not git_home.exists():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out, said.strip()) == (130, b"", b"stopped")
