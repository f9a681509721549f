"""One live machine: commands and files, over the channel to its agent.

Nothing that the guest says is believed beyond its own machine: sizes, results and error numbers
are checked here, and an answer that does not come in time ends the machine.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import posixpath
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Never

from sandbox import protocol
from sandbox.channel import Channel, Stream
from sandbox.launch import Identity, Launch, Supervised, lost
from sandbox.protocol import StreamGone
from sandbox.provider import (
    DEFAULT_FILE_CAP,
    DEFAULT_OUTPUT_CAP,
    WORK_DIR,
    Duplex,
    EgressHandler,
    ExecResult,
    GuestMisbehaved,
    GuestUser,
    MachineLost,
    MachineSpec,
    OnOutput,
    OutputStream,
    ProviderFailed,
    Receipt,
    Unsupported,
    WarmProgram,
    Warmth,
)

START_TIMEOUT_S = 30.0
# The agent enforces a command's timeout; this much later the host ends the machine instead.
EXEC_GRACE_S = 10.0
# How long a file's transfer may stand still.
STALL_S = 60.0
# How long a machine whose channel ended may take to be gone by itself.
END_NOTICE_S = 2.0
TREE_TIMEOUT_S = 600.0
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a shell's `$?` would be

_HOMES = {GuestUser.WORK: "/home/work", GuestUser.ROOT: "/root"}
_PATH = "/usr/local/bin:/usr/bin:/bin"
_ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNPACK = 'mkdir -p -- "$1" && exec tar -x -f - -C "$1" --no-same-owner'
_TAR_SAW_A_CHANGE = 1  # GNU tar: a file changed while it was read
_LANES = (OutputStream.STDOUT, OutputStream.STDERR)

_log = logging.getLogger(__name__)

Fields = list[tuple[str, str]]


@dataclass(frozen=True)
class Tier:
    """What a provider's machines can do."""

    name: str
    two_users: bool


class Machine:
    """A `Sandbox` (see `sandbox.provider`) whose agent speaks `sandbox.protocol`."""

    start_timeout_s = START_TIMEOUT_S

    def __init__(
        self,
        launch: Launch,
        identity: Identity,
        directory: Path,
        tier: Tier,
        spec: MachineSpec,
        egress: EgressHandler,
    ) -> None:
        """Start it and wait for its agent. ProviderFailed when that does not answer."""
        self.directory = directory
        self._identity = identity
        self._tier = tier
        self._spec = spec
        self._killed = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._supervised = self._supervise(launch, theirs.fileno())
        self._egress = egress
        self._handed_over: dict[str, str] = {}
        self._channel = Channel(ours, self._pass_out, self._explain)
        self.hello = self._greet()
        self._warming = self._start_warm(spec.warm) if spec.warm else None

    def _supervise(self, launch: Launch, machine_fd: int) -> Supervised:
        return Supervised(launch, self._identity, self.directory, self._spec.ttl_s, machine_fd)

    def _greet(self) -> dict[str, str]:
        try:
            return self._channel.start(self.start_timeout_s)
        except TimeoutError:
            self.kill()
            reason = f"its agent did not answer within {self.start_timeout_s:.0f} s"
        except (MachineLost, GuestMisbehaved) as error:
            self.kill()
            reason = str(error)
        raise ProviderFailed(f"a {self.tier} machine did not start: {reason}")

    @property
    def id(self) -> str:
        return self._identity.id

    @property
    def tier(self) -> str:
        return self._tier.name

    @property
    def spec(self) -> MachineSpec:
        return self._spec

    @property
    def receipt(self) -> Receipt:
        facts = {"limited_by": self._supervised.limited_by, **self._handed_over}
        digest = self._spec.template.digest
        return Receipt(self.tier, digest, self._identity.created_at, facts)

    # The end

    def kill(self) -> None:
        self._killed = True
        self._supervised.kill()
        self._channel.close()

    def _pass_out(self, connection: Duplex) -> None:
        self._egress(connection)

    def is_over(self) -> bool:
        """Whether everything of the machine is gone."""
        return self._supervised.wait(0) is not None

    def hand_over(self, spec: MachineSpec, egress: EgressHandler) -> None:
        """Give a machine that has waited to a run: its record, deadline and way out are the run's.

        What it was made of (template, sizes) stays as it is. Call it before the first command.
        """
        waited_s = time.time() - self._identity.created_at
        self._identity = replace(self._identity, run_id=spec.run_id)
        self._spec = replace(self._spec, run_id=spec.run_id, ttl_s=spec.ttl_s)
        self._handed_over = {"waited_s": f"{waited_s:.0f}", "taken_at": f"{time.time():.3f}"}
        self._egress = egress
        self._supervised.hand_over(spec.run_id, spec.ttl_s)

    def _explain(self, cause: Exception) -> Exception:
        """Say why the channel ended; called by it once. Whatever the cause, the machine is over.

        A machine that ends takes its channel along; one that lives on has broken it off.
        """
        if isinstance(cause, GuestMisbehaved):
            self._supervised.kill()
            return cause
        by_itself = self._supervised.wait(END_NOTICE_S)
        self._supervised.kill()
        ended = by_itself or self._supervised.report
        if ended is None or (by_itself is None and ended.reason == "killed" and not self._killed):
            return cause
        return lost(ended)

    # A warm program

    def _start_warm(self, warm: WarmProgram) -> Stream | None:
        """Have the agent start it; nothing here waits for it."""
        env = self._environment(GuestUser.WORK, dict(warm.env))
        fields = [
            ("kind", "warm"),
            ("python", self.place(warm.python)),
            ("program", self.place(warm.program)),
            *(("argv", self.place(item)) for item in warm.argv),
            *(("env", f"{name}={self.place(value)}") for name, value in env.items()),
            *(("late", name) for name in warm.late_env),
            *(("file", f"{path}\n{text}") for path, text in warm.files),
            *(("reply", text) for text in warm.replies),
        ]
        return self._channel.open(fields)

    def await_warm(self, timeout_s: float) -> Warmth:
        """Wait until the warm program waits for its command, or for the news that there is none."""
        if self._warming is None:
            return Warmth(ready=False, detail="none was asked for")
        try:
            if self._warming.receive(timeout_s) is not None:
                self._channel.misbehaved("data from a warm program")
        except TimeoutError:
            return Warmth(ready=False, detail=f"not ready after {timeout_s:.0f} s")
        result = dict(self._warming.result or ())
        if "errno" in result:
            return Warmth(ready=False, detail="it could not be started")
        return Warmth(result.get("state") == "ready", result.get("detail", "")[:1000])

    def place(self, text: str) -> str:
        """Say the guest's paths and addresses as this machine knows them."""
        return text

    # Commands

    def exec(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = WORK_DIR,
        user: GuestUser = GuestUser.WORK,
        stdin: bytes = b"",
        timeout_s: float = 600.0,
        output_cap: int = DEFAULT_OUTPUT_CAP,
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        output = _Output(output_cap, on_output)
        source = io.BytesIO(stdin) if stdin else None
        fields = self._command(argv, env or {}, cwd, user, timeout_s, output_cap, source)
        return self._run(fields, source, output, timeout_s)

    def _command(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        user: GuestUser,
        timeout_s: float,
        output_cap: int,
        source: IO[bytes] | None,
    ) -> Fields:
        if not argv:
            raise ValueError("an empty argv")
        self._check_user(user)
        whole = self._environment(user, env)
        return [
            ("kind", "exec"),
            ("cwd", _absolute(cwd)),
            ("user", user),
            ("stdin", "pipe" if source else "null"),
            ("timeout_s", str(timeout_s)),
            ("output_cap", str(output_cap)),
            *(("argv", item) for item in argv),
            *(("env", f"{name}={value}") for name, value in whole.items()),
        ]

    @staticmethod
    def _environment(user: GuestUser, env: Mapping[str, str]) -> dict[str, str]:
        path = _ROOT_PATH if user == GuestUser.ROOT else _PATH
        return {"PATH": path, "HOME": _HOMES[user], **env}

    def _run(
        self,
        fields: Fields,
        source: IO[bytes] | None,
        output: _Output,
        timeout_s: float,
        path: str | None = None,
    ) -> ExecResult:
        """Run one command. With `path`, failing to start it is that path's OSError."""
        began = time.monotonic()
        stream = self._channel.open(fields)
        feeder = _Feeder(stream, source) if source else None
        try:
            self._collect(stream, output, began + timeout_s + EXEC_GRACE_S)
        except BaseException:
            _abandon(stream)
            raise
        if feeder:
            feeder.finish()
        if path is not None:
            self._raise_errno(stream, path)
        return self._result_of(stream, output, time.monotonic() - began)

    def _collect(self, stream: Stream, output: _Output, deadline: float) -> None:
        """Take output until the end. Time that `on_output` takes is not counted."""
        while True:
            try:
                frame = stream.receive(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                self._end_unresponsive("a command did not end at its timeout")
            if frame is None:
                return
            before = time.monotonic()
            if not output.add(frame.lane, frame.payload):
                self._channel.misbehaved("more output than was asked for")
            deadline += time.monotonic() - before

    def _result_of(self, stream: Stream, output: _Output, seconds: float) -> ExecResult:
        result = dict(stream.result or ())
        error = self._number(result, "errno")
        if error is not None:
            code = NOT_FOUND if error == errno.ENOENT else NOT_EXECUTABLE
            text = f"drydock: cannot run it: {os.strerror(error)}\n".encode()
            return ExecResult(code, b"", text, seconds)
        return ExecResult(
            exit_code=self._number(result, "exit_code"),
            stdout=bytes(output.kept[0]),
            stderr=bytes(output.kept[1]),
            seconds=seconds,
            signal=self._number(result, "signal"),
            timed_out="timed_out" in result,
            truncated="truncated" in result,
            warm="warm" in result,
        )

    # Files

    def write_file(
        self,
        path: str,
        data: bytes | IO[bytes],
        *,
        mode: int = 0o644,
        user: GuestUser = GuestUser.WORK,
    ) -> None:
        self._check_user(user)
        fields = [("kind", "put"), ("path", _absolute(path)), ("user", user), ("mode", f"{mode:o}")]
        stream = self._channel.open(fields)
        source = io.BytesIO(data) if isinstance(data, bytes) else data
        try:
            _feed(stream, source, STALL_S)
            self._await_end(stream)
        except TimeoutError:
            self._end_unresponsive("a file was not taken")
        except BaseException:
            _abandon(stream)
            raise
        self._raise_errno(stream, path)

    def read_file(self, path: str, *, max_bytes: int = DEFAULT_FILE_CAP) -> bytes:
        into = io.BytesIO()
        self.copy_out(path, into, max_bytes=max_bytes)
        return into.getvalue()

    def copy_out(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        fields = [("kind", "get"), ("path", _absolute(path)), ("max_bytes", str(max_bytes))]
        stream = self._channel.open(fields)
        size = 0
        try:
            while (frame := stream.receive(STALL_S)) is not None:
                size += len(frame.payload)
                if size > max_bytes:
                    self._channel.misbehaved(f"{path} is larger than {max_bytes} bytes")
                into.write(frame.payload)
        except TimeoutError:
            self._end_unresponsive("a file did not come")
        except BaseException:
            _abandon(stream)
            raise
        if dict(stream.result or ()).get("errno") == str(errno.EFBIG):
            self._channel.misbehaved(f"{path} is larger than {max_bytes} bytes")
        self._raise_errno(stream, path)
        return size

    def write_tree(self, path: str, tar: IO[bytes], *, user: GuestUser = GuestUser.WORK) -> None:
        output = _Output(DEFAULT_OUTPUT_CAP)
        argv = ["/bin/sh", "-c", _UNPACK, "sh", _absolute(path)]
        fields = self._command(argv, {}, "/", user, TREE_TIMEOUT_S, output.cap, tar)
        result = self._run(fields, tar, output, TREE_TIMEOUT_S)
        if result.exit_code != 0:
            raise OSError(f"unpacking below {path} failed: {_tail(result.stderr)}")

    def read_tree(self, path: str, into: IO[bytes], *, max_bytes: int = DEFAULT_FILE_CAP) -> int:
        user = GuestUser.ROOT if self._tier.two_users else GuestUser.WORK
        output = _Output(max_bytes, into=into)
        argv = ["/bin/tar", "-c", "-f", "-", "."]
        fields = self._command(argv, {}, path, user, TREE_TIMEOUT_S, max_bytes, None)
        result = self._run(fields, None, output, TREE_TIMEOUT_S, path)
        if result.truncated:
            self._channel.misbehaved(f"{path} is larger than {max_bytes} bytes")
        if result.exit_code not in (0, _TAR_SAW_A_CHANGE):
            raise OSError(f"packing {path} failed: {_tail(result.stderr)}")
        return output.sizes[0]

    def _await_end(self, stream: Stream) -> None:
        if stream.receive(STALL_S) is not None:
            self._channel.misbehaved("data in answer to a file")

    # Checks of what the guest says

    def _raise_errno(self, stream: Stream, path: str) -> None:
        """Raise what the agent met, as the OSError it would be here."""
        number = self._number(dict(stream.result or ()), "errno")
        if number is not None:
            raise OSError(number, os.strerror(number), path)

    def _number(self, result: Mapping[str, str], name: str) -> int | None:
        """Read a small natural number; None when it is not there."""
        text = result.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 3):
            self._channel.misbehaved(f"{name} is not a small number")
        return int(text)

    def _end_unresponsive(self, what: str) -> Never:
        self.kill()
        raise MachineLost("channel", f"{what}, so the machine was ended")

    def _check_user(self, user: GuestUser) -> None:
        if user == GuestUser.ROOT and not self._tier.two_users:
            raise Unsupported(f"a {self.tier} machine on this host has no root user in it")


class _Output:
    """What one command wrote: kept (or passed into a file) up to `cap` bytes for each stream."""

    def __init__(
        self, cap: int, on_output: OnOutput | None = None, into: IO[bytes] | None = None
    ) -> None:
        self.cap = cap
        self.kept = (bytearray(), bytearray())
        self.sizes = [0, 0]
        self._on_output = on_output
        self._into = into

    def add(self, lane: int, data: bytes) -> bool:
        """False, and nothing kept, when that is more than the guest was allowed to send."""
        self.sizes[lane] += len(data)
        if self.sizes[lane] > self.cap:
            return False
        if self._into is not None and lane == 0:
            self._into.write(data)
        else:
            self.kept[lane].extend(data)
        if self._on_output is not None:
            self._on_output(_LANES[lane], data)
        return True


class _Feeder:
    """Sends a command's input in its own thread: the command may write before it has read all."""

    def __init__(self, stream: Stream, source: IO[bytes]) -> None:
        self._stream = stream
        self._source = source
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._feed, name="stdin", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Raise what reading the source raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _feed(self) -> None:
        try:
            _feed(self._stream, self._source)
        except (MachineLost, GuestMisbehaved) as error:
            _log.debug("input stopped: %s", error)  # whoever collects the output is told the same
        except Exception as error:  # noqa: BLE001  raised again by `finish`
            self._error = error
            self._stream.reset("its input could not be read")


def _feed(stream: Stream, source: IO[bytes], stall_s: float | None = None) -> None:
    """Send a whole source, then the end. A guest that takes no more has its reasons: its result."""
    try:
        while piece := source.read(protocol.MAX_DATA):
            stream.send(piece, stall_s)
    except StreamGone:
        return
    stream.end()


def _abandon(stream: Stream) -> None:
    """Give a stream up because of an error that is to be raised, whatever the channel's state."""
    with suppress(MachineLost, GuestMisbehaved):
        stream.reset("given up")


def _absolute(path: str) -> str:
    if not posixpath.isabs(path):
        raise ValueError(f"a path in the guest must be absolute: {path!r}")
    return path


def _tail(output: bytes) -> str:
    return output.decode("utf-8", "replace").strip()[-500:]
