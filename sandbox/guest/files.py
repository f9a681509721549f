"""Writing and reading one regular file."""

# The agent's rules for imports hold here too:
# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH120

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from sandbox.guest.task import CHUNK, Fields, Task
else:
    from task import CHUNK, Fields, Task


class Put(Task):
    """Create or replace one file: written beside its place, moved there when it is whole."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        self.user = options["user"]
        self.path = options["path"]
        self.mode = int(options["mode"], 8)
        directory = os.path.dirname(self.path)
        self.partial = os.path.join(directory, f".drydock-{self.stream}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self.agent.acting_as(self.user):
            os.makedirs(directory, exist_ok=True)
            self.fd = os.open(self.partial, flags, 0o600)

    def on_data(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            self._give_up()
            self.agent.fail(self, error)
            return
        self.agent.send(self.agent.connection.credit(self.stream, len(data)))

    def on_eof(self) -> None:
        try:
            os.fchmod(self.fd, self.mode)
            os.close(self.fd)
            with self.agent.acting_as(self.user):
                os.rename(self.partial, self.path)
        except OSError as error:
            os.unlink(self.partial)
            self.agent.fail(self, error)
            return
        self.agent.end(self, [])

    def on_end(self, *, reset: bool) -> None:
        self._give_up()

    def _give_up(self) -> None:
        os.close(self.fd)
        os.unlink(self.partial)


class Get(Task):
    """Send one regular file. A symlink, a FIFO, a device or a directory is an error, not read."""

    def start(self, fields: Fields) -> None:
        options = dict(fields)
        path = options["path"]
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        self.fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        info = os.fstat(self.fd)
        problem = _unreadable(info, int(options["max_bytes"]))
        if problem:
            os.close(self.fd)
            raise OSError(problem, os.strerror(problem))
        self.on_credit()

    def on_credit(self) -> None:
        connection = self.agent.connection
        try:
            while room := min(CHUNK, connection.sendable(self.stream)):
                data = os.read(self.fd, room)
                if not data:
                    os.close(self.fd)
                    self.agent.end(self, [])
                    return
                self.agent.send(connection.data(self.stream, data))
        except OSError as error:
            os.close(self.fd)
            self.agent.fail(self, error)

    def on_end(self, *, reset: bool) -> None:
        os.close(self.fd)


def _unreadable(info: os.stat_result, limit: int) -> int:
    """Return why a file is not read, as an errno; 0 when it is fine."""
    if stat.S_ISDIR(info.st_mode):
        return errno.EISDIR
    if not stat.S_ISREG(info.st_mode):
        return errno.EINVAL
    return errno.EFBIG if info.st_size > limit else 0
