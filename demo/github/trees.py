"""Commits made from a mapping of paths to contents, through `git fast-import`: thousands of
files in one process, any bytes as names, always the same identity and so the same SHA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from demo.github.git import GitRepo, Identity


@dataclass(frozen=True)
class Executable:
    data: bytes


@dataclass(frozen=True)
class Symlink:
    target: str


@dataclass(frozen=True)
class Submodule:
    sha: str


Content = bytes | str | Executable | Symlink | Submodule | None
"""What a path holds; None deletes it."""

Files = Mapping[Any, Content]
"""Paths (text, or bytes when they are not UTF-8) and what they hold."""


def write_commit(
    repo: GitRepo,
    files: Files,
    *,
    parent: str | None,
    message: str,
    author: Identity,
) -> str:
    """Write a commit that no ref points to yet, and return its SHA. GitFailed on a bad path."""
    scratch = "refs/local-github/import"
    who = f"{author.name} <{author.email}> {author.at} +0000"
    head = [
        f"commit {scratch}\nauthor {who}\ncommitter {who}\n".encode(),
        _data(message.encode()),
        f"from {parent}\n".encode() if parent else b"",
    ]
    body = [_change(_as_bytes(path), content) for path, content in files.items()]
    repo.run("fast-import", "--quiet", "--force", stdin=b"".join([*head, *body, b"\n"]))
    sha = repo.refs(scratch)[scratch]
    repo.delete_ref(scratch)
    return sha


def _change(path: bytes, content: Content) -> bytes:
    quoted = _quote(path)
    match content:
        case None:
            return b"D " + quoted + b"\n"
        case Submodule(sha):
            return b"M 160000 " + sha.encode() + b" " + quoted + b"\n"
        case Symlink(target):
            mode, data = b"120000", target.encode()
        case Executable(data):
            mode = b"100755"
        case _:
            mode, data = b"100644", _as_bytes(content)
    return b"M " + mode + b" inline " + quoted + b"\n" + _data(data)


def _data(data: bytes) -> bytes:
    return b"data %d\n" % len(data) + data + b"\n"


def _quote(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
