"""Real git for the tests: repositories built object by object, bundles, and a smart HTTP server."""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import subprocess
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.harbour.fixtures import harbour, make_harbour
from workers.git import Git

__all__ = ["harbour", "make_harbour"]

OUT = "refs/heads/drydock/out"
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "LC_ALL": "C.UTF-8",
    "GIT_AUTHOR_NAME": "Model",
    "GIT_AUTHOR_EMAIL": "model@example.com",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_NAME": "Model",
    "GIT_COMMITTER_EMAIL": "model@example.com",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
}


AUTHOR = "{GIT_AUTHOR_NAME} <{GIT_AUTHOR_EMAIL}> {GIT_AUTHOR_DATE}".format(**ENV)


@dataclass(frozen=True)
class Node:
    """One entry of a tree: a mode and content, or the name of an object that exists."""

    mode: str
    data: bytes = b""
    sha: str = ""


Files = Mapping[bytes, bytes | Node]


def link(target: bytes) -> Node:
    return Node("120000", target)


def submodule(sha: str = "1" * 40) -> Node:
    return Node("160000", sha=sha)


@dataclass(frozen=True)
class Repo:
    """A bare repository that a test fills object by object; there is never a work tree."""

    path: Path

    def git(self, *args: str | bytes, stdin: bytes = b"", env: Mapping[str, str] = ENV) -> str:
        return self.raw(*args, stdin=stdin, env=env).decode().strip()

    def raw(self, *args: str | bytes, stdin: bytes = b"", env: Mapping[str, str] = ENV) -> bytes:
        argv = ["git", f"--git-dir={self.path}", *args]
        done = subprocess.run(argv, env=env, input=stdin, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def blob(self, data: bytes) -> str:
        return self.write("blob", data)

    def write(self, kind: str, data: bytes) -> str:
        """Write an object as git does, valid or not: hundreds of tests need dozens of them each.

        Source: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects (object storage)
        """
        whole = f"{kind} {len(data)}\0".encode() + data
        sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
        path = self.path / "objects" / sha[:2] / sha[2:]
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(zlib.compress(whole, 1))
        return sha

    def tree(self, files: Files) -> str:
        """Write the tree of these whole paths."""
        here: dict[bytes, Node] = {}
        below: dict[bytes, dict[bytes, bytes | Node]] = {}
        for path, what in files.items():
            name, slash, rest = path.partition(b"/")
            if slash:
                below.setdefault(name, {})[rest] = what
            else:
                node = what if isinstance(what, Node) else Node("100644", what)
                here[name] = node
        for name, inner in below.items():
            here[name] = Node("040000", sha=self.tree(inner))
        return self.raw_tree(list(here.items()))

    def raw_tree(self, entries: Sequence[tuple[bytes, Node]]) -> str:
        """Write a tree of exactly these entries, sorted as git does, valid or not."""
        ordered = sorted(entries, key=lambda e: e[0] + (b"/" if e[1].mode == "040000" else b""))
        raw = b"".join(
            node.mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(self._sha(node))
            for name, node in ordered
        )
        return self.write("tree", raw)

    def _sha(self, node: Node) -> str:
        return node.sha or self.blob(node.data)

    def commit(
        self,
        files: Files | None = None,
        *,
        parents: Sequence[str] = (),
        message: str | bytes = "Change it",
        tree: str | None = None,
        ref: str | None = None,
        encoding: str | None = None,
    ) -> str:
        made_of = tree if tree is not None else self.tree(files or {})
        text = message.encode() if isinstance(message, str) else message
        head = [f"tree {made_of}", *(f"parent {each}" for each in parents)]
        head += [f"author {AUTHOR}", f"committer {AUTHOR}"]
        head += [f"encoding {encoding}"] if encoding else []
        sha = self.write("commit", "\n".join(head).encode() + b"\n\n" + text)
        if ref:
            self.git("update-ref", ref, sha)
        return sha

    def read(self, ref: str) -> str:
        return self.git("rev-parse", ref)


def new_repo(path: Path) -> Repo:
    """Return an empty one at a new path; `git init` is asked once, and its work copied."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, data in _empty_repo().items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    for folder in ("hooks", "objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    return Repo(path)


@functools.cache
def _empty_repo() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as made:
        argv = ["git", "init", "-q", "--bare", "--template=", "-b", "main", made]
        subprocess.run(argv, env=ENV, check=True)
        files = [path for path in Path(made).rglob("*") if path.is_file()]
        return {str(path.relative_to(made)): path.read_bytes() for path in files}


@pytest.fixture
def git(tmp_path: Path) -> Git:
    return Git(home=tmp_path / "empty-home", timeout_s=60)


@pytest.fixture
def make_repo(tmp_path: Path) -> Callable[[str], Repo]:
    return lambda name: new_repo(tmp_path / name)


@pytest.fixture
def server_repo(tmp_path: Path) -> Repo:
    """A repository as a server would hold it, with one commit on `main`."""
    repo = new_repo(tmp_path / "served" / "o" / "r.git")
    repo.commit({b"a.txt": b"one\n", b"src/app.py": b"x = 1\n"}, ref="refs/heads/main")
    return repo


@dataclass
class GitServer:
    """git's own http-backend on loopback. Without the right token it answers 401."""

    root: Path
    token: str | None = None
    denied: bool = False
    redirect_to: str | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def environ(self, handler: BaseHTTPRequestHandler) -> dict[str, str]:
        path, _, query = handler.path.partition("?")
        return {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.receivepack",
            "GIT_CONFIG_VALUE_0": "true",
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "REQUEST_METHOD": handler.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server: GitServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = server


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _HttpServer

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        server, body = self.server.behaviour, self.read_body()
        given = self.headers.get("Authorization")
        server.requests.append((f"{self.command} {self.path}", given))
        if server.redirect_to:
            self.answer(302, {"Location": server.redirect_to + self.path}, b"")
        elif server.denied:
            self.answer(403, {}, b"Resource not accessible by integration")
        elif server.token is not None and given != basic(server.token):
            self.answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        else:
            self.run_backend(body)

    def do_POST(self) -> None:
        self.do_GET()

    def read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def run_backend(self, body: bytes) -> None:
        environ = self.server.behaviour.environ(self) | {"CONTENT_LENGTH": str(len(body))}
        argv = ["git", "http-backend"]
        done = subprocess.run(argv, env=environ, input=body, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if line)
        status = int(headers.pop("Status", "200").split()[0])
        self.answer(status, headers, content)

    def answer(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., GitServer]]:
    running: list[_HttpServer] = []

    def start(**options: object) -> GitServer:
        server = GitServer(tmp_path / "served", **options)  # type: ignore[arg-type]
        http = _HttpServer(server)
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        running.append(http)
        return server

    yield start
    for http in running:
        http.shutdown()
        http.server_close()
