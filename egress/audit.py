"""The audit log: append-only, hash-chained JSON lines that cannot be edited quietly.

Each line holds `seq` (from 1), `time` (seconds since the epoch), `prev` (hash of the line before,
64 zeros at first), `record`, and `hash`: SHA-256 over the canonical JSON of the other four. Whoever
keeps the last hash elsewhere (the pull request does) can prove later that nothing was changed.

Durability: every append is one `write` on an `O_APPEND` descriptor under `flock`, so a killed
process loses nothing; `fsync` follows where the caller asks for it (refusals) and at `close`, so a
power cut may cost the latest allowed decisions, never a refusal.

A line that a crash has torn is never removed: the next append ends it and writes a `recovered`
record with its length and hash, which `verify` accepts; a torn line without one is a broken chain.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GENESIS = "0" * 64
MAX_LINE = 1024 * 1024
_KEYS = {"seq", "time", "prev", "record", "hash"}
_UNRECOVERED = "the line is not a whole record and nothing recovered it"


class AuditBroken(Exception):
    """The log cannot be continued: its chain is broken, or it cannot be written."""


@dataclass(frozen=True)
class Head:
    """The last record's place and hash: what an anchor elsewhere keeps."""

    seq: int = 0
    hash: str = GENESIS


@dataclass(frozen=True)
class Verification:
    """What `verify` found. `broken_line` counts lines of the file from 1."""

    ok: bool
    head: Head
    broken_line: int | None = None
    reason: str = ""


class AuditLog:
    """Appends to one log; safe between threads and between processes.

    Opening reads the last line, and refuses (`AuditBroken`) one that is whole but wrong.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd: int | None = os.open(path, flags, 0o600)
        self._head = Head()
        self._size = 0
        try:
            with self._exclusive() as fd:
                self._catch_up(fd)
        except BaseException:
            self.close()
            raise

    @property
    def head(self) -> Head:
        """The last record that this object wrote or saw."""
        return self._head

    def append(self, record: Mapping[str, Any], *, durable: bool = False) -> Head:
        """Write one record; `durable` waits for the disk. AuditBroken when it cannot be written."""
        with self._exclusive() as fd:
            try:
                self._catch_up(fd)
                self._write(fd, record)
                if durable:
                    os.fsync(fd)
            except OSError as error:
                raise AuditBroken(f"{self.path} cannot be written: {error}") from error
            return self._head

    def close(self) -> None:
        """Put everything on the disk and close; idempotent."""
        with self._lock:
            if self._fd is None:
                return
            fd, self._fd = self._fd, None
            try:
                os.fsync(fd)
            finally:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _exclusive(self) -> Iterator[int]:
        """Hold the log against this process's threads and everybody else's."""
        with self._lock:
            fd = self._fd
            if fd is None:
                raise AuditBroken(f"{self.path} is closed")
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield fd
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)

    def _catch_up(self, fd: int) -> None:
        """Take over what another writer appended; end a torn line so that the chain goes on."""
        size = os.fstat(fd).st_size
        if size < self._size:
            raise AuditBroken(f"{self.path} was cut: {size} bytes, {self._size} before")
        if size == self._size:
            return
        whole, torn = _split_tail(_read_tail(fd, self._size, size))
        if whole:
            self._head = _head_of(whole, self.path)
        elif len(torn) > MAX_LINE:
            raise AuditBroken(f"{self.path} ends with {len(torn)} bytes that are no record")
        self._size = size
        if torn:
            self._recover(fd, torn)

    def _recover(self, fd: int, torn: bytes) -> None:
        """Complete a line that lacks its newline only; seal any other with a recovery record."""
        if _parse(torn + b"\n") is not None:
            self._head = _head_of(torn + b"\n", self.path)
            self._size += _write_all(fd, b"\n", self._size)
        else:
            self._write(fd, _recovery(torn), before=b"\n")

    def _write(self, fd: int, record: Mapping[str, Any], *, before: bytes = b"") -> None:
        line, head = _chain(self._head, self._clock(), record)
        self._size += _write_all(fd, before + line, self._size)
        self._head = head


def verify(path: Path) -> Verification:
    """Read a whole log and check its chain; the first broken record is named with its line.

    OSError when it cannot be read. A reader does not wait for writers: while one is at work the
    last line may be seen torn.
    """
    head = Head()
    torn: bytes | None = None
    number = 0
    for number, line in enumerate(_lines(path), 1):
        entry, problem = _check_line(line, head)
        if torn is not None and (entry is None or problem or entry["record"] != _recovery(torn)):
            return Verification(False, head, number - 1, _UNRECOVERED)
        if entry is not None and problem:
            return Verification(False, head, number, problem)
        torn = line.removesuffix(b"\n") if entry is None else None
        head = head if entry is None else Head(entry["seq"], entry["hash"])
    if torn is not None:
        return Verification(False, head, number, _UNRECOVERED)
    return Verification(True, head)


def _chain(head: Head, now: float, record: Mapping[str, Any]) -> tuple[bytes, Head]:
    entry: dict[str, Any] = {
        "seq": head.seq + 1,
        "time": now,
        "prev": head.hash,
        "record": dict(record),
    }
    entry["hash"] = _digest(entry)
    line = _canonical(entry) + b"\n"
    if len(line) > MAX_LINE:
        raise AuditBroken(f"a record of {len(line)} bytes is longer than {MAX_LINE}")
    return line, Head(entry["seq"], entry["hash"])


def _check_line(line: bytes, head: Head) -> tuple[dict[str, Any] | None, str]:
    """Return the entry and what is wrong with it, if anything."""
    entry = _parse(line)
    if entry is None:
        return None, "the line is not a whole record"
    if entry["seq"] != head.seq + 1:
        return entry, f"record {entry['seq']} follows record {head.seq}"
    if entry["prev"] != head.hash:
        return entry, f"record {entry['seq']} does not continue record {head.seq}"
    if entry["hash"] != _digest(entry):
        return entry, f"record {entry['seq']} was changed"
    return entry, ""


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and set(entry) == _KEYS and isinstance(entry["seq"], int)
    return entry if whole else None


def _recovery(torn: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(torn).hexdigest()
    return {"kind": "recovered", "torn_bytes": len(torn), "torn_sha256": digest}


def _head_of(line: bytes, path: Path) -> Head:
    entry = _parse(line)
    if entry is None or entry["hash"] != _digest(entry):
        raise AuditBroken(f"{path}: the last record is broken; run `drydock audit verify`")
    return Head(entry["seq"], entry["hash"])


def _split_tail(tail: bytes) -> tuple[bytes, bytes]:
    """Return the last whole line (with its newline) and the torn bytes after it."""
    body, newline, torn = tail.rpartition(b"\n")
    if not newline:
        return b"", tail
    return body.rpartition(b"\n")[2] + b"\n", torn


def _read_tail(fd: int, seen: int, size: int) -> bytes:
    """Read what is new, at most enough for the longest line and a torn one after it."""
    start = max(seen, size - 2 * MAX_LINE)
    return os.pread(fd, size - start, start)


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.readline(MAX_LINE + 1), b"")


def _write_all(fd: int, data: bytes, size: int) -> int:
    """Write in one call; OSError for a short write (disk full), after taking the piece back.

    The lock is held and nobody was told of the piece, so nothing recorded is lost.
    """
    written = os.write(fd, data)
    if written != len(data):
        os.ftruncate(fd, size)
        raise OSError(f"only {written} of {len(data)} bytes were written")
    return written


def _digest(entry: Mapping[str, Any]) -> str:
    covered = {key: value for key, value in entry.items() if key != "hash"}
    return hashlib.sha256(_canonical(covered)).hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
