"""Aider, awake before it is wanted: the process that waits inside a machine and becomes the run.

    PYTHON warm_aider.py PROGRAM      (fd 3: a socket to the agent, fd 4: what to rehearse)

Started by the agent (`warm.py`) as `work`, with the interpreter and the environment that the
program itself would have. It imports what Aider imports, goes through one edit in a scratch
repository against a canned model on loopback, puts back what that changed, and waits. When the
agent hands it a command (descriptors for its standard streams and working folder, argv and
environment), this very process runs the program: its pid, session, user, limits and exit status
are those of a command that was started cold. Nothing is forked, because a machine serves one run,
and a copy of 400 MB costs under gVisor more than half of what the run's start takes.

What is kept on purpose: imported modules, and results of pure functions. One cache is put in from
here: `json5.loads` by content, for Aider parses its own model table at every start, in pure Python,
which is most of the time from its import to its first request. Everything else is Aider's own, run
as it is; `State` puts back what its rehearsal left in module-level variables.

It holds no secret. Whoever is `work` may kill it, or tamper with it as with any process of theirs;
the program then runs cold, or ends as it would.
"""

# The agent's rules for imports do not hold here, but pathlib is not missed either:
# ruff: noqa: PTH103, PTH109, PTH118, PTH119, PTH120, PTH123, PTH208

from __future__ import annotations

import contextlib
import copy
import ctypes
import gc
import hashlib
import http.server
import importlib
import io
import json
import os
import pickle
import random
import select
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections import deque
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn
if TYPE_CHECKING or __package__:
    from sandbox import protocol
else:  # in the machine the files lie side by side
    import protocol

AGENT_FD, REHEARSAL_FD = 3, 4
# `aider.main` brings most of Aider; it leaves LiteLLM and these for its first use of them.
MODULES = ("aider.main", "litellm", "httpx", "networkx", "numpy", "tokenizers", "pexpect")
DEEP = frozenset({"aider"})  # its plain data is copied whole
SHALLOW = frozenset({"litellm", "openai", "rich", "git"})
LIMIT_S = 120  # of a rehearsal, which takes 4 s under gVisor and 40 under emulation
TAKEN, DECLINED, READY = "taken", "declined", "ready"

_PR_SET_DUMPABLE, _PR_SET_NAME = 4, 15
_MAX_REQUEST = 4 * 1024 * 1024
_DATA = (dict, list, set, deque)
_SCALARS = (type(None), bool, int, float, str, bytes, tuple, frozenset)

Fields = list[tuple[str, str]]


def main(program: str) -> None:
    """Wake up, wait, become the program. Returns when the agent is gone."""
    sys.path[0] = os.path.dirname(program)  # as the program itself would have it
    agent = Agent(socket.socket(fileno=AGENT_FD))
    _prctl(_PR_SET_DUMPABLE, 0)  # no other process of `work` reads or traces it while it waits
    before = dict(os.environ)
    rehearsal = Rehearsal(_read_fields(REHEARSAL_FD))
    for name in MODULES:
        with contextlib.suppress(ModuleNotFoundError):  # whatever it lacks it imports by itself
            importlib.import_module(name)
    remember_json5()
    trouble = "" if agent.is_asking() else rehearsal.run(program)
    gained = {k: v for k, v in os.environ.items() if before.get(k) != v}
    agent.say(READY, trouble)
    while (request := agent.next_request()) is not None:
        reason = misfit(program, before, rehearsal.late_env, request)
        if not reason:
            agent.say(TAKEN)
            agent.close()
            become(program, request, gained)
        request.close()
        agent.say(DECLINED, reason)


# The agent


class Request:
    """One command. `fds` are its standard input, output and error, and its working folder."""

    def __init__(self, fields: Fields, fds: list[int]) -> None:
        self.argv = [value for key, value in fields if key == "argv"]
        self.env = dict(value.split("=", 1) for key, value in fields if key == "env")
        self.fds = fds

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


class Agent:
    """The socket to the agent: lines go out; one byte with descriptors comes in for a command."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def say(self, word: str, detail: str = "") -> None:
        line = " ".join([word, *detail.split()])[:1000]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(line.encode("utf-8", "replace") + b"\n")

    def is_asking(self) -> bool:
        """Whether a command waits already: then a rehearsal would only keep it waiting."""
        return bool(select.select([self._sock], [], [], 0)[0])

    def next_request(self) -> Request | None:
        """Wait for a command; None when the agent is gone."""
        data, fds, _flags, _address = socket.recv_fds(self._sock, 1, 5)
        if not data:
            return None
        return Request(_read_fields(fds[0]), fds[1:])

    def close(self) -> None:
        self._sock.close()


def _read_fields(fd: int) -> Fields:
    with open(fd, "rb") as file:
        file.seek(0)
        return protocol.unpack_fields(file.read(_MAX_REQUEST))


def misfit(program: str, env: dict[str, str], late_env: frozenset[str], request: Request) -> str:
    """Why a command has to run cold; "" when it need not.

    Environment variables that may have been read during the imports must be what they were then.
    """
    if request.argv[0] != program:
        return "another program"
    if not os.access(".", os.X_OK, dir_fd=request.fds[3]):
        return "its working folder may not be entered"
    names = (env.keys() | request.env.keys()) - late_env
    differing = sorted(name for name in names if env.get(name) != request.env.get(name))
    return f"environment: {' '.join(differing)}" if differing else ""


# The rehearsal


class Rehearsal:
    """One edit in a scratch repository, with the flags of a run, before a model that is canned."""

    def __init__(self, fields: Fields) -> None:
        def every(name: str) -> list[str]:
            return [value for key, value in fields if key == name]

        self.argv = every("argv")
        self.late_env = frozenset(every("late"))
        self.files = [(path, text) for path, _, text in (v.partition("\n") for v in every("file"))]
        self.replies = every("reply")
        self.model = dict(fields).get("model", "")  # HOST:PORT that argv and environment name

    def run(self, program: str) -> str:
        """Rehearse and put everything back; returns what went wrong, "" if nothing did."""
        state = State()
        environment, descriptors = dict(os.environ), _open_descriptors()
        folder = tempfile.mkdtemp(prefix="rehearsal-")
        try:
            with CannedModel(self.replies) as model, _time_limit(LIMIT_S):
                trouble = self._play(program, folder, model.address)
                if not trouble and model.answered < len(self.replies):
                    trouble = f"the model was asked {model.answered} times"
        finally:
            self._leave(environment)
            shutil.rmtree(folder, ignore_errors=True)
            state.put_back()
        clear_up()
        _silence(_open_descriptors() - descriptors)
        return trouble

    def _play(self, program: str, folder: str, address: str) -> str:
        for name, value in list(os.environ.items()):
            os.environ[name] = value.replace(self.model, address) if self.model else value
        os.environ["HOME"] = os.path.join(folder, "home")
        repository = os.path.join(folder, "repo")
        argv = [item.replace(self.model, address) if self.model else item for item in self.argv]
        try:
            os.makedirs(os.environ["HOME"])
            self._make_repository(repository)
            os.chdir(repository)
            status = _run_main(program, [program, *argv])
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  told to the agent
            return f"{type(error).__name__}: {error}"
        return "" if status in (0, None) else f"it ended with {status}"

    def _make_repository(self, repository: str) -> None:
        os.makedirs(repository)
        for path, text in self.files:
            target = os.path.join(repository, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
        who = ["-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost"]
        for args in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "start"]):
            subprocess.run(["git", *args], cwd=repository, check=True, stdin=subprocess.DEVNULL)
        for key in ("name", "email"):
            config = ["git", "config", f"user.{key}", "rehearsal"]
            subprocess.run(config, cwd=repository, check=True, stdin=subprocess.DEVNULL)

    def _leave(self, environment: dict[str, str]) -> None:
        """Keep only what modules that were imported meanwhile have set in the environment."""
        os.chdir("/")
        ours = self.late_env | {"HOME"} | environment.keys()
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        os.environ.clear()
        os.environ.update(environment | kept)


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread after so long."""

    def on_alarm(_number: int, _frame: object) -> None:
        raise TimeoutError(f"it took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _run_main(program: str, argv: list[str]) -> object:
    """Call Aider's entry point as its script does; the status that it exits with."""
    main_module = importlib.import_module("aider.main")
    saved = sys.argv
    sys.argv = argv
    try:
        return main_module.main()
    except SystemExit as exit_:
        return exit_.code
    finally:
        sys.argv = saved


class CannedModel:
    """A model on loopback that says prepared texts, in the words of OpenAI or of Anthropic."""

    def __init__(self, replies: Iterable[str]) -> None:
        self._replies = list(replies) or [""]
        self.answered = 0
        self._server = http.server.HTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.address = f"127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> CannedModel:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.dumps(model.answer(self.path)).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        return Handler

    def answer(self, path: str) -> dict[str, object]:
        text = self._replies[min(self.answered, len(self._replies) - 1)]
        self.answered += 1
        if path.rstrip("/").endswith("/messages"):
            return {
                "id": "msg_0",
                "type": "message",
                "role": "assistant",
                "model": "canned",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        message = {"role": "assistant", "content": text}
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": "canned",
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


# What the rehearsal changed


class State:
    """Module-level data of Aider and LiteLLM as it was, to be put back in place.

    Of Aider (`DEEP`) plain data is copied whole, class attributes included; of the others the
    containers' own contents, and of objects at module level their attributes. A module's name that
    came to stand for another module, a class or a function is a late import, and stays.
    """

    def __init__(self, deep: frozenset[str] = DEEP, shallow: frozenset[str] = SHALLOW) -> None:
        self._deep = deep
        self._known = deep | shallow
        self._names: list[tuple[dict[str, Any], dict[str, Any], bool]] = []
        self._classes: list[tuple[type, dict[str, Any]]] = []
        self._contents: list[tuple[Any, Any]] = []
        self._seen: set[int] = set()
        for name, module in list(sys.modules.items()):
            package = name.partition(".")[0]
            if package in self._known and isinstance(module, types.ModuleType):
                self._keep(vars(module), deep=package in deep, is_module=True)

    def put_back(self) -> None:
        for container, contents in self._contents:
            _refill(container, contents)
        for names, values, is_module in self._names:
            _restore(names, values, is_module=is_module)
        for owner, values in self._classes:
            for name, value in values.items():
                if vars(owner).get(name) is not value:
                    setattr(owner, name, value)

    def _keep(self, names: dict[str, Any], *, deep: bool, is_module: bool = False) -> None:
        if id(names) in self._seen:
            return
        self._seen.add(id(names))
        values = {name: value for name, value in names.items() if not name.startswith("__")}
        self._names.append((names, values, is_module))
        for value in values.values():
            self._keep_value(value, deep=deep)

    def _keep_value(self, value: Any, *, deep: bool) -> None:
        if id(value) in self._seen:
            return
        if isinstance(value, _DATA):
            self._seen.add(id(value))
            self._contents.append((value, _copy(value, deep=deep)))
        elif isinstance(value, type):
            if self._is_ours(value, self._deep):
                self._keep_class(value)
        elif self._is_ours(type(value), self._known) and hasattr(value, "__dict__"):
            self._keep(vars(value), deep=self._is_ours(type(value), self._deep))

    def _keep_class(self, owner: type) -> None:
        self._seen.add(id(owner))
        plain = {
            name: value
            for name, value in vars(owner).items()
            if not name.startswith("__") and isinstance(value, (*_DATA, *_SCALARS))
        }
        self._classes.append((owner, plain))
        for value in plain.values():
            self._keep_value(value, deep=True)

    @staticmethod
    def _is_ours(kind: type, packages: frozenset[str]) -> bool:
        return str(getattr(kind, "__module__", "")).partition(".")[0] in packages


def _copy(value: Any, *, deep: bool) -> Any:
    if deep:
        # What cannot be copied (a lock, a module) is no plain data: keep the container's contents.
        with contextlib.suppress(Exception):
            return copy.deepcopy(value)
    return copy.copy(value)


def _refill(container: Any, contents: Any) -> None:
    if isinstance(container, dict):
        if container is not contents and dict(container) != contents:
            container.clear()
            container.update(contents)
    elif isinstance(container, set):
        container.clear()
        container.update(contents)
    else:
        container.clear()
        container.extend(contents)


def _restore(names: dict[str, Any], values: dict[str, Any], *, is_module: bool) -> None:
    for name in [n for n in names if n not in values and not n.startswith("__")]:
        if not (is_module and _is_definition(names[name])):
            del names[name]
    for name, value in values.items():
        if name not in names or not (is_module and _is_late_import(names[name], value)):
            names[name] = value


def _is_definition(value: Any) -> bool:
    return isinstance(
        value, (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
    )


def _is_late_import(now: Any, before: Any) -> bool:
    return _is_definition(now) and not _is_definition(before)


def remember_json5() -> None:
    """Have `json5.loads` parse equal texts once. Each caller still gets objects of its own."""
    try:
        json5: Any = importlib.import_module("json5")
    except ModuleNotFoundError:
        return
    json5.loads = remembering(json5.loads)


def remembering(loads: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a parser of text that depends on its text alone (without options) in a cache."""
    parsed: dict[bytes, bytes] = {}

    def loads_once(text: Any, *args: Any, **options: Any) -> Any:
        if args or options or not isinstance(text, str):
            return loads(text, *args, **options)
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        if key not in parsed:
            parsed[key] = pickle.dumps(loads(text))
        return pickle.loads(parsed[key])  # noqa: S301  what this function put there

    return loads_once


def clear_up() -> None:
    """Leave no thread and no half-dead object behind."""
    for executor in [o for o in gc.get_objects() if type(o) is ThreadPoolExecutor]:
        _restart(executor)
    gc.collect()
    gc.freeze()  # what is there now stays: later collections need not look at it again


def reseed() -> None:
    """Draw new randomness for all that has its own."""
    random.seed()
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    ssl.RAND_add(os.urandom(32), 32)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _restart(executor: ThreadPoolExecutor) -> None:
    """Give a pool its first state: its threads would go on, and remember whom they served."""
    names = ("_max_workers", "_thread_name_prefix", "_initializer", "_initargs")
    args = [getattr(executor, name) for name in names]
    executor.shutdown(wait=True, cancel_futures=True)
    ThreadPoolExecutor.__init__(executor, *args)


def _open_descriptors() -> set[int]:
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return {fd for fd in found if _is_open(fd)}


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:  # the listing's own
        return False
    return True


def _silence(fds: set[int]) -> None:
    """Point leftover descriptors nowhere. Not closed: an object may still close its number."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for fd in fds:
        os.dup2(null, fd, inheritable=False)
    os.close(null)


# The run


def become(program: str, request: Request, gained: dict[str, str]) -> NoReturn:
    """Be the command: its streams, folder, environment and arguments; then run the program."""
    for target, fd in enumerate(request.fds[:3]):
        os.dup2(fd, target)
    os.fchdir(request.fds[3])
    request.close()
    # LiteLLM appends the working folder when it is imported; that was "/".
    sys.path[:] = [os.getcwd() if entry == "/" else entry for entry in sys.path]
    os.environ.clear()
    os.environ.update(request.env | gained)
    time.tzset()
    _open_standard_streams()
    sys.argv = list(request.argv)
    _prctl(_PR_SET_DUMPABLE, 1)
    _prctl(_PR_SET_NAME, os.path.basename(program).encode()[:15])
    reseed()  # the machine may have been copied since it woke up, and each copy draws its own
    _execute(program)


def _execute(program: str) -> NoReturn:
    """Run the script as `__main__`, and exit as the interpreter does after it."""
    module = types.ModuleType("__main__")
    module.__file__ = program
    sys.modules["__main__"] = module
    try:
        with open(program, "rb") as file:
            code = compile(file.read(), program, "exec")
        exec(code, vars(module))  # noqa: S102  it is the program
    except Exception as error:  # noqa: BLE001  told without the frames that are not the program's
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)
    sys.exit()


def _open_standard_streams() -> None:
    """Make sys.stdin, stdout and stderr anew, as the interpreter made them at its start.

    Source: CPython 3.11, `create_stdio` in Python/pylifecycle.c.
    """
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        mode = "w" if fd else "r"
        buffering = 0 if unbuffered and fd else -1
        binary: Any = open(fd, f"{mode}b", buffering=buffering, closefd=False)  # noqa: SIM115
        getattr(binary, "raw", binary).name = f"<{name}>"
        new: Any = io.TextIOWrapper(
            binary,
            encoding=old.encoding,
            errors=old.errors,
            newline="\n",
            line_buffering=not unbuffered and (binary.isatty() or name == "stderr"),
            write_through=unbuffered,
        )
        new.mode = mode
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _prctl(option: int, value: int | bytes) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1])
