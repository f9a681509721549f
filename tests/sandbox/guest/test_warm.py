"""A warm program and the agent, with an ordinary process for a machine and a stand-in for Aider.

Each thing is tried warm and cold: whoever runs a command must not be able to tell them apart.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.machine import Machine
from sandbox.provider import ExecResult, MachineSpec, Template, WarmProgram
from sandbox.providers.fake import FakeProvider
from sandbox.supervisor import descendants

WAKING_S = 20.0
# Not that of the virtual environment, whose path may begin like a path in the guest.
PYTHON = os.path.realpath(sys.executable)
# What `import aider.main` finds: it asks the model once for each reply, and can be told to be slow.
AIDER = """\
import http.client, os, sys, time
time.sleep(float(os.environ.get("SLOW", "0")))
calls = []
def main():
    open("../ran", "a").write("x")
    host = sys.argv[1]
    for _ in range(2):
        calls.append(host)
        client = http.client.HTTPConnection(host)
        client.request("POST", "/v1/chat/completions", b"{}")
        client.getresponse().read()
    return 0
"""
PROGRAM = f"""\
#!{PYTHON}
import os, sys
import aider.main
exec(os.environ["SCRIPT"])
"""
MakeMachine = Callable[..., Machine]


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A script with the package that it imports beside it, as in Aider's environment."""
    folder = tmp_path / "bin"
    (folder / "aider").mkdir(parents=True)
    (folder / "aider/__init__.py").touch()
    (folder / "aider/main.py").write_text(AIDER)
    path = folder / "aider-program"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def warm_program(program: Path, **env: str) -> WarmProgram:
    whole = {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", **env}
    return WarmProgram(
        python=PYTHON,
        program=str(program),
        argv=("127.0.0.1:3128",),
        env=tuple(whole.items()),
        late_env=("SCRIPT", "LATE"),
        files=(("a.txt", "1\n"), ("../job/prompt", "do\n")),
        replies=("one", "two"),
    )


@pytest.fixture
def make_machine(tmp_path: Path) -> Iterator[MakeMachine]:
    provider = FakeProvider(tmp_path / "state")
    made: list[Machine] = []

    def make(warm: WarmProgram | None) -> Machine:
        template = Template("none", "0" * 64, tmp_path)
        spec = MachineSpec("run-1", template, ttl_s=120, warm=warm)
        machine = provider.create(spec, lambda duplex: duplex.close())
        assert isinstance(machine, Machine)
        made.append(machine)
        return machine

    yield make
    for machine in made:
        machine.kill()
    assert provider.list() == []


@pytest.fixture(params=["warm", "cold"])
def run(
    request: pytest.FixtureRequest, program: Path, make_machine: MakeMachine
) -> Callable[..., ExecResult]:
    """Run a script as the program, warm or cold; and see to it that it was."""
    is_warm = request.param == "warm"

    def run(script: str, **options: object) -> ExecResult:
        warm = warm_program(program)
        machine = make_machine(warm if is_warm else None)
        if is_warm:
            warmth = machine.await_warm(WAKING_S)
            assert (warmth.ready, warmth.detail) == (True, "")
        result = execute(machine, program, script, **options)
        assert result.warm is is_warm
        return result

    return run


def execute(machine: Machine, program: Path, script: str, **options: object) -> ExecResult:
    late = options.pop("late", {})
    env = {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "SCRIPT": script, **late}  # type: ignore[dict-item]
    argv = [str(program), "first", "second word"]
    return machine.exec(argv, env=env, timeout_s=20, **options)  # type: ignore[arg-type]


def test_arguments_environment_folder_and_streams_are_the_commands_own(
    run: Callable[..., ExecResult],
) -> None:
    result = run(
        "print(sys.argv[1:], os.environ['LATE'], os.path.basename(os.getcwd()), sys.stdin.read());"
        "print('wrong', file=sys.stderr)",
        late={"LATE": "a=b"},
        stdin=b"given",
    )
    assert result.stdout == b"['first', 'second word'] a=b work given\n"
    assert result.stderr == b"wrong\n"
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("script", "exit_code", "stderr"),
    [
        ("sys.exit(3)", 3, b""),
        ("sys.exit('sorry')", 1, b"sorry\n"),
        ("sys.exit()", 0, b""),
        ("sys.exit(300)", 300 % 256, b""),
        ("import threading; threading.Timer(0.2, lambda: os.write(1, b'late')).start()", 0, b""),
        ("import atexit; atexit.register(lambda: os.write(1, b'late'))", 0, b""),
        ("os._exit(5)", 5, b""),
    ],
)
def test_it_exits_as_a_script_does(
    run: Callable[..., ExecResult], script: str, exit_code: int, stderr: bytes
) -> None:
    result = run(script)
    assert (result.exit_code, result.stderr) == (exit_code, stderr)
    assert result.stdout == (b"late" if "late" in script else b"")


def test_an_exception_is_shown_without_a_word_of_who_started_it(
    run: Callable[..., ExecResult], program: Path
) -> None:
    result = run("1 / 0")
    assert result.exit_code == 1
    first, second, *_ = result.stderr.decode().splitlines()
    assert first == "Traceback (most recent call last):"
    assert second == f'  File "{program}", line 4, in <module>'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_a_signal_ends_it_and_is_reported(
    run: Callable[..., ExecResult], number: signal.Signals
) -> None:
    result = run(f"os.kill(os.getpid(), {number:d}); import time; time.sleep(9)")
    assert (result.exit_code, result.signal) == (None, number)


def test_its_timeout_ends_its_daemons_too(program: Path, make_machine: MakeMachine) -> None:
    machine = make_machine(warm_program(program))
    assert machine.await_warm(WAKING_S).ready
    script = (
        "import subprocess; subprocess.Popen(['sleep', '77'], start_new_session=True);"
        "print('on'); import time; time.sleep(60)"
    )
    env = {"LC_ALL": "C.UTF-8", "PYTHONUNBUFFERED": "1", "SCRIPT": script}
    result = machine.exec([str(program)], env=env, timeout_s=1.5)
    assert (result.warm, result.timed_out, result.stdout) == (True, True, b"on\n")
    left = machine.exec(["sh", "-c", "ps -ef | grep '[s]leep 77' || true"])
    assert left.stdout == b""


def test_nothing_of_the_rehearsal_is_left(program: Path, make_machine: MakeMachine) -> None:
    machine = make_machine(warm_program(program))
    assert machine.await_warm(WAKING_S).ready
    script = (
        "import threading; print(aider.main.calls, threading.active_count(),"
        " [f for f in os.listdir('/proc/self/fd') if int(f) > 2"
        " and os.path.realpath('/proc/self/fd/' + f).startswith(('/tmp', '/work'))])"
    )
    assert execute(machine, program, script).stdout == b"[] 1 []\n"


def test_it_serves_one_command_and_the_next_is_cold(
    program: Path, make_machine: MakeMachine
) -> None:
    machine = make_machine(warm_program(program))
    assert machine.await_warm(WAKING_S).ready
    assert [execute(machine, program, "").warm for _ in range(2)] == [True, False]


def test_other_programs_are_none_of_its_business(program: Path, make_machine: MakeMachine) -> None:
    machine = make_machine(warm_program(program))
    assert machine.await_warm(WAKING_S).ready
    assert not machine.exec([PYTHON, "-c", ""]).warm
    assert execute(machine, program, "").warm


def test_an_environment_that_it_did_not_wake_up_in_makes_it_decline(
    program: Path, make_machine: MakeMachine
) -> None:
    machine = make_machine(warm_program(program))
    assert machine.await_warm(WAKING_S).ready
    other = execute(machine, program, "print(os.environ['TZ'])", late={"TZ": "UTC"})
    assert (other.warm, other.stdout) == (False, b"UTC\n")
    assert execute(machine, program, "").warm, "it waits on"


def test_a_command_that_comes_while_it_imports_is_taken_without_a_rehearsal(
    program: Path, make_machine: MakeMachine, tmp_path: Path
) -> None:
    machine = make_machine(warm_program(program, SLOW="1"))
    result = execute(machine, program, "print('here')", late={"SLOW": "1"})
    assert (result.warm, result.stdout) == (True, b"here\n")
    assert machine.await_warm(WAKING_S).ready


def test_one_that_cannot_be_started_is_no_more_than_that(
    program: Path, make_machine: MakeMachine
) -> None:
    missing = WarmProgram(python="/nowhere/python", program=str(program), argv=(), env=())
    machine = make_machine(missing)
    assert not machine.await_warm(WAKING_S).ready
    assert execute(machine, program, "print(1)").stdout == b"1\n"


def test_one_that_fails_to_import_is_no_more_than_that(
    program: Path, make_machine: MakeMachine
) -> None:
    (program.parent / "aider/main.py").write_text("import os\nos._exit(4)\n")
    machine = make_machine(warm_program(program))
    warmth = machine.await_warm(WAKING_S)
    assert (warmth.ready, warmth.detail) == (False, "it ended")
    (program.parent / "aider/main.py").write_text("")
    assert execute(machine, program, "print(1)").stdout == b"1\n"


@pytest.mark.parametrize("when", ["waits", "imports"])
def test_one_that_is_killed_leaves_its_command_to_start_cold_once(
    program: Path, make_machine: MakeMachine, tmp_path: Path, when: str
) -> None:
    machine = make_machine(warm_program(program, **({"SLOW": "60"} if when == "imports" else {})))
    if when == "waits":
        assert machine.await_warm(WAKING_S).ready
    os.kill(warm_pid(machine), signal.SIGKILL)
    ran = tmp_path / "ran"
    result = execute(machine, program, f"open({str(ran)!r}, 'a').write('x')", late={"SLOW": "0"})
    assert (result.warm, result.exit_code) == (False, 0)
    assert ran.read_text() == "x"


def test_a_rehearsal_that_goes_wrong_is_told_and_does_no_harm(
    program: Path, make_machine: MakeMachine
) -> None:
    with (program.parent / "aider/main.py").open("a") as file:
        file.write("def main():\n    raise ValueError('not today')\n")
    machine = make_machine(warm_program(program))
    warmth = machine.await_warm(WAKING_S)
    assert (warmth.ready, warmth.detail) == (True, "ValueError: not today")
    assert execute(machine, program, "").warm


def test_a_machine_without_one_says_so(make_machine: MakeMachine) -> None:
    assert make_machine(None).await_warm(1.0).detail == "none was asked for"


def warm_pid(machine: Machine) -> int:
    """The warm program's process on this host."""
    supervisor = next(iter(FakeProvider(machine.directory.parent.parent).list())).supervisor_pid
    give_up = time.monotonic() + WAKING_S
    while time.monotonic() < give_up:
        for pid in descendants(supervisor):
            if b"warm_aider.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        time.sleep(0.01)
    raise AssertionError("there is no warm process")
