"""Records what the real Aider says and leaves behind, as input for the tests of its parser.

    python -m tests.workers.record_aider --aider PATH/TO/aider [NAME ...]

Each scenario is a small scripted model on loopback and a two-file repository; Aider is started
with exactly the argv, environment and files that `workers.aider` builds. What is kept is text,
cleaned of this machine's paths, ports and times. A full round takes about five minutes: Aider
waits long before it gives a failing server up.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from workers.aider import AiderJob, build_argv, build_env, build_files

RECORDINGS = Path(__file__).parent / "recordings"
BRIEF = "add(2, 3) answers -1. It should answer 5."
FILES = {
    "calc.py": "def add(a, b):\n    return a - b\n",
    "test_calc.py": "from calc import add\n\nassert add(2, 3) == 5, add(2, 3)\n",
}
TEST = f"{sys.executable} test_calc.py"
KEPT = ("output.txt", "analytics.jsonl", "llm.txt", "facts.json")


def block(path: str, search: str, replace: str) -> str:
    return f"{path}\n```python\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n```\n"


RIGHT = block("calc.py", "    return a - b\n", "    return a + b\n")
WRONG = block("calc.py", "    return a - b\n", "    return a * b\n")
RIGHT_AFTER_WRONG = block("calc.py", "    return a * b\n", "    return a + b\n")
BAD = block("calc.py", "    return a / b  # no such line\n", "    return a + b\n")
HALF = "calc.py\n```python\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n```\n"
MESSAGE = "fix: Add instead of subtracting"


@dataclass(frozen=True)
class Reply:
    """What the scripted model does with one request. `cut` breaks the body off in the middle."""

    text: str = ""
    status: int = 200
    error: Mapping[str, Any] = field(default_factory=dict)
    finish: str = "stop"
    hang: bool = False
    cut: bool = False


def failing(status: int, code: str | None, kind: str, message: str) -> Reply:
    return Reply(status=status, error={"message": message, "type": kind, "code": code})


NO_KEY = failing(401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided.")
NO_MONEY = failing(
    429,
    "insufficient_quota",
    "insufficient_quota",
    "You exceeded your current quota, please check your plan and billing details.",
)
TOO_FAST = failing(429, "rate_limit_exceeded", "requests", "Rate limit reached for requests.")
TOO_LONG = failing(
    400,
    "context_length_exceeded",
    "invalid_request_error",
    "This model's maximum context length is 8192 tokens. Your messages resulted in 9001 tokens.",
)
NO_MODEL = failing(404, "model_not_found", "invalid_request_error", "The model does not exist.")
BAD_PARAMETER = failing(400, None, "invalid_request_error", "Unsupported value: 'temperature'.")
BROKEN = failing(500, None, "server_error", "The server had an error.")


@dataclass(frozen=True)
class Scenario:
    """`edits` answers requests for edits (the last one again and again), `message` the others."""

    edits: tuple[Reply, ...]
    message: Reply = Reply(MESSAGE)
    files: tuple[str, ...] = ("calc.py",)
    test: bool = True
    brief: str = BRIEF
    no_server: bool = False
    time_limit_s: float = 200.0
    kill_after_first: bool = False
    locked_index: bool = False
    tree: Mapping[str, str] = field(default_factory=lambda: FILES)


SCENARIOS: Mapping[str, Scenario] = {
    "edited": Scenario((Reply(RIGHT),)),
    "edited_without_tests": Scenario((Reply(RIGHT),), test=False),
    "edited_after_failing_test": Scenario((Reply(WRONG), Reply(RIGHT_AFTER_WRONG))),
    "tests_fail_to_the_end": Scenario(
        (
            Reply(WRONG),
            Reply(block("calc.py", "    return a * b\n", "    return a * b * 2\n")),
            Reply(block("calc.py", "    return a * b * 2\n", "    return a * b * 3\n")),
            Reply(block("calc.py", "    return a * b * 3\n", "    return a * b * 4\n")),
        )
    ),
    "edited_file_not_in_chat": Scenario((Reply(RIGHT),), files=()),
    "mentioned_file_is_added_first": Scenario(
        (Reply("I need to change `calc.py`:\n\n" + RIGHT), Reply(RIGHT)), files=()
    ),
    "new_file": Scenario(
        (Reply(block("sub/new.py", "", "VALUE = 1\n")),), files=(), brief="Add a value.", test=False
    ),
    "commit_message_refused": Scenario((Reply(RIGHT),), message=NO_MONEY),
    "malformed_then_edited": Scenario((Reply(BAD), Reply(RIGHT))),
    "no_change_same_text": Scenario(
        (Reply(block("calc.py", "    return a - b\n", "    return a - b\n")),), test=False
    ),
    "empty_reply": Scenario((Reply(""),)),
    "answered_in_prose": Scenario((Reply("The function is right as it is:\n\n- nothing to do."),)),
    "malformed_edits": Scenario((Reply(BAD),)),
    "unfinished_block": Scenario((Reply(HALF),)),
    "key_rejected": Scenario((NO_KEY,)),
    "quota": Scenario((NO_MONEY,)),
    "quota_after_first_edit": Scenario((Reply(WRONG), NO_MONEY)),
    "rate_limited": Scenario((TOO_FAST,)),
    "rate_limited_then_edited": Scenario((TOO_FAST, TOO_FAST, Reply(RIGHT))),
    "context_overflow": Scenario((TOO_LONG,)),
    "output_limit": Scenario((Reply("calc.py\n```python\n<<<<<<< SEARCH\n", finish="length"),)),
    "model_not_found": Scenario((NO_MODEL,)),
    "request_refused": Scenario((BAD_PARAMETER,)),
    "server_error": Scenario((BROKEN,)),
    "unreachable": Scenario((Reply(),), no_server=True),
    "cut_off_reply": Scenario((Reply(RIGHT, cut=True),)),
    "hung": Scenario((Reply(hang=True),), time_limit_s=25.0),
    "commit_impossible": Scenario((Reply(RIGHT),), test=False, locked_index=True),
    "killed": Scenario((Reply(hang=True),), kill_after_first=True),
}


class Model(ThreadingHTTPServer):
    """The scripted model: answers by a scenario and notes the status of each call."""

    daemon_threads = True

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scenario = scenario
        self.calls: list[dict[str, Any]] = []
        self.asked = threading.Event()
        self.over = threading.Event()
        self._edits = 0
        self._lock = threading.Lock()

    def next_reply(self, body: Mapping[str, Any]) -> Reply:
        with self._lock:
            if "commit message" in str(body["messages"][0]["content"])[:400].lower():
                return self.scenario.message
            reply = self.scenario.edits[min(self._edits, len(self.scenario.edits) - 1)]
            self._edits += 1
            return reply


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def log_message(self, *_: object) -> None:
        return

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = self.server.next_reply(body)
        self.server.asked.set()
        if reply.hang:
            self.server.calls.append({"status": None, "error": None})
            self.server.over.wait()
            return
        self.server.calls.append({"status": reply.status, "error": reply.error.get("code")})
        self.answer(reply, body["model"])

    def answer(self, reply: Reply, model: str) -> None:
        payload = {"error": dict(reply.error)} if reply.error else completion(reply, model)
        data = json.dumps(payload).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if reply.cut else data)


def completion(reply: Reply, model: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 60, "total_tokens": 760},
    }


def git(repo: Path, *args: str) -> str:
    env = {"PATH": os.environ["PATH"], "HOME": str(repo.parent), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *args], cwd=repo, env=env, capture_output=True, check=True)
    return done.stdout.decode().rstrip()


def make_repo(root: Path, tree: Mapping[str, str]) -> str:
    repo = root / "repo"
    repo.mkdir()
    (root / "job").mkdir()
    for name, text in tree.items():
        (repo / name).write_bytes(text.encode())
    git(repo, "init", "-q", "-b", "main")
    git(repo, "config", "user.name", "Drydock")
    git(repo, "config", "user.email", "drydock@example.com")
    (repo / ".git" / "info" / "exclude").write_text(".aider*\n__pycache__/\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Start")
    return git(repo, "rev-parse", "HEAD")


def run_aider(program: str, scenario: Scenario, root: Path, model: Model) -> dict[str, Any]:
    port = model.server_address[1] if not scenario.no_server else 9
    job = AiderJob(
        model="openai/scripted",
        files=scenario.files,
        test_command=TEST if scenario.test else None,
        map_tokens=512,
        route_env={
            "OPENAI_API_BASE": f"http://127.0.0.1:{port}/v1",
            "OPENAI_API_KEY": "placeholder",
        },
        program=program,
    )
    repo = root / "repo"
    for name, data in build_files(job, scenario.brief).items():
        (repo / name).write_bytes(data)
    env = {**build_env(job), "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root / "home")}
    with (root / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            build_argv(job),
            cwd=repo,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return wait(process, scenario, model)


def wait(process: subprocess.Popen[bytes], scenario: Scenario, model: Model) -> dict[str, Any]:
    if scenario.kill_after_first:
        model.asked.wait(60)
        os.killpg(process.pid, signal.SIGKILL)
    try:
        code: int | None = process.wait(scenario.time_limit_s)
        timed_out = False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        code, timed_out = None, True
    model.over.set()
    return {"exit_code": None if code is None or code < 0 else code, "timed_out": timed_out}


def record(program: str, name: str, into: Path) -> str:
    started = time.monotonic()
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "home").mkdir()
        base = make_repo(root, scenario.tree)
        if scenario.locked_index:
            (root / "repo" / ".git" / "index.lock").touch()
        model = Model(scenario)
        threading.Thread(target=model.serve_forever, daemon=True).start()
        facts = run_aider(program, scenario, root, model)
        model.shutdown()
        model.server_close()
        if scenario.no_server:
            model.calls.append({"status": None, "error": "connection refused"})
        facts |= {"calls": model.calls, "git": git_facts(root / "repo", base)}
        keep(root, into / name, facts, cleaner(root, program, model.server_address[1]))
    return f"{name}: {time.monotonic() - started:.0f} s"


def git_facts(repo: Path, base: str) -> dict[str, Any]:
    dirty = git(repo, "status", "--porcelain").splitlines()
    return {
        "commits": int(git(repo, "rev-list", "--count", f"{base}..HEAD")),
        "subjects": git(repo, "log", "--reverse", "--format=%s", f"{base}..HEAD").splitlines(),
        "dirty": [line[3:] for line in dirty],
    }


def cleaner(root: Path, program: str, port: int) -> Callable[[str], str]:
    environment = str(Path(program).parent.parent)
    swaps = (
        (re.escape(str(root)), "/work"),
        (re.escape(environment), "/opt/aider"),
        (re.escape(sys.executable), "python3"),
        (re.escape(str(Path(sys.executable).parent.parent)), "/usr"),
        (re.escape(sys.base_prefix), "/usr"),
        (rf":{port}\b", ":3128"),
        (r'"user_id": "[^"]*"', '"user_id": "x"'),
        (r'"time": \d+', '"time": 0'),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "2025-01-01T00:00:00"),
        (r"\b0x[0-9a-f]{6,}", "0x0"),
    )

    def clean(text: str) -> str:
        for pattern, value in swaps:
            text = re.sub(pattern, value, text)
        return text

    return clean


def keep(root: Path, into: Path, facts: Mapping[str, Any], clean: Callable[[str], str]) -> None:
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    texts = {
        "output.txt": read(root / "output.txt"),
        "analytics.jsonl": read(root / "job" / "analytics.jsonl"),
        "llm.txt": answers_only(read(root / "job" / "llm.txt")),
        "facts.json": json.dumps(facts, indent=2) + "\n",
    }
    for name, text in texts.items():
        (into / name).write_text(clean(text))


def read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def answers_only(history: str) -> str:
    """Drop the long prompts; keep their heading and the answers as they are."""
    kept, asking = [], False
    for line in history.splitlines(keepends=True):
        if line.startswith(("TO LLM ", "LLM RESPONSE ")):
            asking = line.startswith("TO LLM ")
            kept.append(line)
        elif not asking:
            kept.append(line)
    return "".join(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aider", required=True, help="path of aider 0.86.2")
    parser.add_argument("--into", type=Path, default=RECORDINGS)
    parser.add_argument("names", nargs="*", default=list(SCENARIOS))
    chosen = parser.parse_args()
    with ThreadPoolExecutor(3) as pool:
        jobs = [pool.submit(record, chosen.aider, name, chosen.into) for name in chosen.names]
        for job in jobs:
            print(job.result(), flush=True)  # noqa: T201 - a script for a terminal


if __name__ == "__main__":
    main()
