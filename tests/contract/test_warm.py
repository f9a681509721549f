"""A command that a warm program became is, to whoever looks, the command that was started cold.

With the real Aider, in real machines: what the model is asked, what is printed, committed and left
behind; and with a probe that tells everything a process can tell of itself.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from demo.model import ScriptedModel, fix_after_failing_test
from sandbox.machine import Machine
from sandbox.provider import (
    WORK_DIR,
    Duplex,
    EgressHandler,
    ExecResult,
    MachineSpec,
    Provider,
    Template,
)
from sandbox.providers import make_provider
from workers.aider import (
    ANALYTICS_FILE,
    CHAT_FILE,
    LLM_FILE,
    AiderJob,
    build_argv,
    build_env,
    build_files,
)
from workers.rehearsal import AIDER_PYTHON, build_warm
from workers.shell import template_environment

pytestmark = pytest.mark.machine
WAKING_S = 120.0
REPO = f"{WORK_DIR}/repo"
FAULTY, WRONG, RIGHT = "    return a - b\n", "    return a * b\n", "    return a + b\n"
TREE = {
    "sums.py": f"def total(a, b):\n{FAULTY}",
    "test_sums.py": "from sums import total\n\n\ndef test_total():\n    assert total(2, 3) == 5\n",
}
# Everything of a process that may depend on how it came to be. Run as Aider would be.
PROBE = """\
import json, os, random, resource, signal, stat, sys, threading
import aider.main
from aider import models
import litellm

litellm.token_counter(model="gpt-4o", text="some")  # what is set for it, Aider sets at its first


def stream(s):
    names = ("name", "mode", "encoding", "errors", "line_buffering", "write_through", "newlines")
    return {n: repr(getattr(s, n, None)) for n in names} | {
        "isatty": s.isatty(), "buffer": type(s.buffer).__name__, "fd": s.fileno()}


def descriptor(fd):
    return stat.S_IFMT(os.fstat(fd).st_mode)


def is_open(fd):
    try:
        return os.fstat(fd) is not None
    except OSError:
        return False


own = os.getpid()
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
facts = {
    "argv": sys.argv, "env": dict(os.environ), "cwd": os.getcwd(), "path": sys.path,
    "flags": str(sys.flags), "bytecode": sys.dont_write_bytecode, "file": __file__,
    "name": __name__, "doc": __doc__, "executable": sys.executable, "prefix": sys.prefix,
    "streams": [stream(s) for s in (sys.stdin, sys.stdout, sys.stderr)],
    "originals": [sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__],
    "stdin": sys.stdin.read(),
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
    "leads": [os.getsid(0) == own, os.getpgid(0) == own, os.getppid()],
    "umask": os.umask(0o022), "nice": os.nice(0),
    "signals": {str(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
    "blocked": sorted(map(str, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
    "limits": {n: resource.getrlimit(getattr(resource, n))
               for n in dir(resource) if n.startswith("RLIMIT_")},
    "privileges": [status.get(n) for n in ("CapEff", "CapPrm", "CapBnd", "NoNewPrivs", "Seccomp")],
    "threads": [t.name for t in threading.enumerate()],
    "descriptors": {fd: descriptor(fd) for fd in range(3)},
    "connections": [fd for fd in range(3, 200)
                    if is_open(fd) and not stat.S_ISCHR(os.fstat(fd).st_mode)],
    "home": sorted(os.listdir(os.path.expanduser("~"))),
    "scratch": sorted(n for n in os.listdir("/tmp") if n.startswith("rehearsal")),
    "settings": [repr(s) for s in models.MODEL_SETTINGS],
    "aliases": models.MODEL_ALIASES, "timeout": models.request_timeout,
    "metadata": models.model_info_manager.local_model_metadata,
    "cache": [str(models.model_info_manager.cache_dir), models.model_info_manager._cache_loaded],
    "lazy": aider.llm.litellm.__dict__.get("_lazy_module") is None,
    "litellm": {n: repr(v) for n, v in sorted(vars(litellm).items())
                if not n.startswith("_") and isinstance(v, (str, int, float, bool, type(None)))},
    "callbacks": [litellm.callbacks, litellm.success_callback, litellm.failure_callback,
                  litellm.input_callback],
    "clients": len(litellm.in_memory_llm_clients_cache.cache_dict),
    "costs": len(litellm.model_cost),
}
json.dump(facts, sys.stdout, default=str, sort_keys=True)
print(random.random(), file=sys.stderr)
sys.exit(7)
"""


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """The tier that wakes a program up soonest, for what does not depend on the tier."""
    yield from providing("bubblewrap", tmp_path_factory)


@pytest.fixture(scope="session", params=["bubblewrap", "gvisor"])
def either(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Provider]:
    yield from providing(request.param, tmp_path_factory)


def providing(name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    made = make_provider(name, tmp_path_factory.mktemp("state"))
    yield made
    assert made.list() == [], "a test left a machine behind"


def job(**changes: Any) -> AiderJob:
    made = AiderJob(
        model="openai/scripted-1",
        files=("sums.py",),
        test_command="python3 -m pytest -q",
        route_env={"OPENAI_API_KEY": "none", "OPENAI_API_BASE": "http://127.0.0.1:3128/v1"},
    )
    return replace(made, **changes)


class Warmed:
    """One machine with a warm program in it."""

    def __init__(
        self, provider: Provider, template: Template, job: AiderJob, egress: EgressHandler
    ) -> None:
        self.job = job
        self.environment = {**template_environment(template), **build_env(job)}
        warm = build_warm(job, template_environment(template))
        spec = MachineSpec("run-warm", template, warm=warm)
        made = provider.create(spec, egress)
        assert isinstance(made, Machine)
        self.machine = made

    def __enter__(self) -> Warmed:
        warmth = self.machine.await_warm(WAKING_S)
        assert warmth.ready, warmth
        assert warmth.detail == "", "the rehearsal was not whole"
        return self

    def __exit__(self, *_: object) -> None:
        self.machine.kill()

    def sh(self, script: str, cwd: str = WORK_DIR) -> str:
        done = self.machine.exec(["sh", "-c", script], cwd=cwd)
        assert done.exit_code == 0, done
        return done.stdout.decode()

    def run(self, **options: Any) -> ExecResult:
        return self.machine.exec(
            build_argv(self.job), env=self.environment, cwd=REPO, timeout_s=120, **options
        )

    def lay_out(self) -> None:
        """Make the repository anew, as it was before any run."""
        self.sh("rm -rf repo job; mkdir -p repo job")
        for path, text in TREE.items():
            self.machine.write_file(f"{REPO}/{path}", text.encode())
        self.sh(
            "git init -q -b main && git config user.name a && git config user.email a@b"
            " && git add -A && git commit -qm start",
            cwd=REPO,
        )
        for path, data in build_files(self.job, "The sum is wrong.").items():
            self.machine.write_file(f"{REPO}/{path}", data)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    script = fix_after_failing_test("sums.py", (FAULTY, WRONG), (WRONG, RIGHT))
    with ScriptedModel([script, script]) as served:
        yield served


def relay_to(port: int) -> EgressHandler:
    def relay(connection: Duplex) -> None:
        with socket.create_connection(("127.0.0.1", port)) as upstream:

            def send() -> None:
                while data := connection.recv(65536):
                    upstream.sendall(data)
                upstream.shutdown(socket.SHUT_WR)

            threading.Thread(target=send, daemon=True).start()
            while data := upstream.recv(65536):
                connection.sendall(data)

    return relay


def test_aider_asks_prints_and_leaves_the_same_warm_and_cold(
    either: Provider, template: Template, model: ScriptedModel
) -> None:
    seen = []
    with Warmed(either, template, job(), relay_to(model.port)) as warmed:
        for is_warm in (True, False):
            warmed.lay_out()
            before = len(model.requests)
            result = warmed.run()
            assert result.warm is is_warm
            seen.append(observed(warmed, result, model, before))
            warmed.sh("rm -rf ~/.aider*")
    for name, value in seen[1].items():
        assert seen[0][name] == value, name
    assert seen[0]["exit_code"] == 0
    assert RIGHT in seen[0]["tree"]


def observed(
    warmed: Warmed, result: ExecResult, model: ScriptedModel, since: int
) -> dict[str, Any]:
    requests = model.requests[since:]
    hidden = {"x-stainless-read-timeout", "host"}
    return {
        "exit_code": result.exit_code,
        "stdout": settled(result.stdout.decode()),
        "stderr": settled(result.stderr.decode()),
        "asked": [settled(json.dumps(request.body)) for request in requests],
        "headers": [
            {name: value for name, value in request.headers.items() if name not in hidden}
            for request in requests
        ],
        "log": warmed.sh("git log --format='%an %ae %cn %s%n%b' && git status --short", cwd=REPO),
        "tree": warmed.sh("cat *.py", cwd=REPO),
        "files": warmed.sh("find . -path ./repo/.git -prune -o -print | sort"),
        "home": warmed.sh("cd && find . | sort"),
        "chat": settled(warmed.sh(f"cat {CHAT_FILE}", cwd=REPO)),
        "llm": settled(warmed.sh(f"cat {LLM_FILE}", cwd=REPO)),
        "events": events(warmed.sh(f"cat {ANALYTICS_FILE}", cwd=REPO)),
    }


def settled(text: str) -> str:
    """Without what differs from one run to the next: commits, times, seconds."""
    text = re.sub(r"\b[0-9a-f]{7}\b", "COMMIT", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", "TIME", text)
    return re.sub(r"\b\d+\.\d+s\b", "SECONDS", text)


def events(lines: str) -> list[tuple[str, Any]]:
    parsed = [json.loads(line) for line in lines.splitlines()]
    return [(each["event"], each["properties"]) for each in parsed]


def test_a_process_can_tell_nothing_of_how_it_was_started(
    either: Provider, template: Template
) -> None:
    told = []
    drawn = set()
    program = f"{WORK_DIR}/probe"
    with Warmed(either, template, job(program=program), refuse) as warmed:
        script = f"#!{AIDER_PYTHON}\n{PROBE}".encode()
        warmed.machine.write_file(program, script, mode=0o755)
        warmed.sh("mkdir repo")
        for is_warm in (True, False):
            result = warmed.run(stdin=b"some\r\ninput\n")
            assert result.warm is is_warm
            assert result.exit_code == 7, result.stderr
            told.append(json.loads(result.stdout))
            drawn.add(result.stderr)
    for name, value in told[1].items():
        assert told[0][name] == value, name
    assert len(drawn) == len(told), "both drew the same random number"


def test_two_machines_draw_different_numbers_after_the_same_rehearsal(
    quick: Provider, template: Template
) -> None:
    program, drawn = f"{WORK_DIR}/probe", set()
    script = f"#!{AIDER_PYTHON}\nimport random, uuid\nprint(random.random(), uuid.uuid4())\n"
    for _ in range(2):
        with Warmed(quick, template, job(program=program), refuse) as warmed:
            warmed.machine.write_file(program, script.encode(), mode=0o755)
            warmed.sh("mkdir repo")
            result = warmed.run()
            assert result.warm
            drawn.update(result.stdout.split())
    assert len(drawn) == 4


def test_a_setup_command_that_kills_everything_of_its_user_leaves_aider_to_start_cold(
    quick: Provider, template: Template, model: ScriptedModel
) -> None:
    with Warmed(quick, template, job(), relay_to(model.port)) as warmed:
        warmed.lay_out()
        warmed.machine.exec(["sh", "-c", "kill -9 -1"], timeout_s=20)
        result = warmed.run()
        assert not result.warm
        assert result.exit_code == 0
        assert RIGHT in warmed.sh("cat sums.py", cwd=REPO)


def test_a_warm_program_that_was_stopped_by_its_user_is_given_up(
    quick: Provider, template: Template, model: ScriptedModel
) -> None:
    with Warmed(quick, template, job(), relay_to(model.port)) as warmed:
        warmed.lay_out()
        warmed.sh("kill -STOP $(pgrep -f [w]arm_aider)")
        result = warmed.run()
        assert not result.warm
        assert result.exit_code == 0


def test_a_warm_program_is_work_and_shows_its_user_nothing(
    quick: Provider, template: Template
) -> None:
    with Warmed(quick, template, job(), refuse) as warmed:
        pid = warmed.sh("pgrep -f [w]arm_aider").strip()
        status = warmed.sh(f"grep -E '^(Uid|Gid|CapEff|Groups)' /proc/{pid}/status")
        facts = {line.split(":")[0]: line.split(":")[1].split() for line in status.splitlines()}
        assert set(facts["Uid"]) == set(facts["Gid"]) == {"1000"}
        assert facts["CapEff"] == ["0000000000000000"]
        assert facts["Groups"] in ([], ["1000"])
        # No path leads to its socket: what can be connected to has a name or a port.
        assert "stream" not in warmed.sh("ls -l /tmp /run /work 2>/dev/null | grep '^s' || true")
        environment = warmed.sh(f"tr '\\0' '\\n' < /proc/{pid}/environ 2>/dev/null || true")
        assert "sk-" not in environment


def refuse(connection: Duplex) -> None:
    connection.close()
