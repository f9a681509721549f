"""A private `redis-server` for `drydock up`: on a unix socket in a folder only we can enter."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cli.processes import Part


class RedisMissing(Exception):
    """No `redis-server` on this host, and no URL of one in the settings."""


@dataclass(frozen=True)
class PrivateRedis:
    """A redis-server that listens on no network: `url` for clients, `part` to start it."""

    folder: Path
    part: Part

    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'redis.sock'}"

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def private_redis(path: str) -> PrivateRedis:
    """Prepare one. The folder is short-lived and short-named: a socket's path holds 107 bytes.

    Nothing is saved to disk: the queue carries ids, and the reconciler enqueues again what is lost.
    """
    program = shutil.which("redis-server", path=path)
    if program is None:
        raise RedisMissing(
            "redis-server is not installed, and DRYDOCK_REDIS_URL names no other server. "
            "Install it (apt-get install redis-server) or set the URL."
        )
    folder = Path(tempfile.mkdtemp(prefix="drydock-redis-"))
    return PrivateRedis(
        folder, Part("redis", _argv(program, folder), {"PATH": path}, 5.0, backing=True)
    )


def _argv(program: str, folder: Path) -> tuple[str, ...]:
    return (
        program,
        *("--port", "0"),
        *("--unixsocket", str(folder / "redis.sock")),
        *("--unixsocketperm", "700"),
        *("--save", ""),
        *("--appendonly", "no"),
        *("--dir", str(folder)),
        *("--loglevel", "warning"),
        *("--daemonize", "no"),
    )
