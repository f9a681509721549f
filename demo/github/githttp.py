"""git over HTTP: git's own `http-backend`, behind GitHub's rules of who may fetch and push.

Anybody may fetch a public repository. Everything else needs Basic authentication with a token as
the password (installation tokens with the user `x-access-token`), `contents: read` for fetching
and `contents: write` for pushing. See
https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import IO, ClassVar

from werkzeug.wrappers import Request, Response

from demo.github.access import ANONYMOUS, Principal, identify_token
from demo.github.acts.pushes import refs_changed
from demo.github.errors import ApiError
from demo.github.git import git_environment
from demo.github.records import Repo
from demo.github.world import World

_PATH = re.compile(
    r"/(?P<owner>[^/]+)/(?P<name>[^/]+?)(?:\.git)?/"
    r"(?P<rest>info/refs|git-upload-pack|git-receive-pack)$"
)
_CHUNK = 64 * 1024


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True)
class _Request:
    repo: Repo
    principal: Principal
    rest: str
    pushes: bool


class GitHttp:
    """Serves the repositories. Pushes to one repository happen one after another."""

    # The whole answer of who speaks version 2, for all repositories of this process.
    _told: ClassVar[tuple[bytes, int, dict[str, str]] | None] = None

    def __init__(self, world: World) -> None:
        self._world = world
        self._push_lock = threading.Lock()

    def handles(self, path: str) -> bool:
        return _PATH.match(path) is not None

    def answer(self, request: Request) -> Response:
        try:
            asked = self._authorize(request)
        except _Refused as refusal:
            headers = {"WWW-Authenticate": 'Basic realm="GitHub"'} if refusal.status == 401 else {}
            return Response(
                refusal.message + "\n", refusal.status, headers, content_type="text/plain"
            )
        if asked.rest == "git-receive-pack":
            return self._receive(request, asked)
        if _asks_for_version_2(request, asked):
            return self._capabilities(request, asked)
        return _run(request, asked)

    def _capabilities(self, request: Request, asked: _Request) -> Response:
        """Say what is spoken, which names no ref: git is asked once for all repositories.

        They are all configured alike. See https://git-scm.com/docs/protocol-v2#_capability_advertisement
        """
        if (told := GitHttp._told) is None:
            first = _run(request, asked)
            told = (first.get_data(), first.status_code, dict(first.headers))
            GitHttp._told = told if first.status_code == HTTPStatus.OK else None
        return Response(*told)

    def _authorize(self, request: Request) -> _Request:
        match = _PATH.match(request.path)
        if match is None:
            raise _Refused(404, "Not Found")
        repo = self._world.find_repo(f"{match['owner']}/{match['name']}")
        principal = self._identify(request)
        service = request.args.get("service") if match["rest"] == "info/refs" else match["rest"]
        if service not in ("git-upload-pack", "git-receive-pack"):
            raise _Refused(403, "Please upgrade your git client.")
        pushes = service == "git-receive-pack"
        _check(repo, principal, pushes=pushes)
        assert repo is not None  # noqa: S101  (_check refuses what does not exist)
        return _Request(repo, principal, match["rest"], pushes)

    def _identify(self, request: Request) -> Principal:
        given = request.authorization
        if given is None:
            return ANONYMOUS
        if given.type != "basic" or not given.password:
            raise _Refused(401, "Invalid username or token.")
        try:
            principal = identify_token(self._world, given.password)
        except ApiError as error:
            raise _Refused(error.status, _sentence(error)) from None
        if principal.installation is not None and given.username != "x-access-token":
            raise _Refused(401, "Invalid username or token.")
        return principal

    def _receive(self, request: Request, asked: _Request) -> Response:
        """Run a push to its end, then announce what moved, then answer."""
        with self._push_lock:
            before = asked.repo.git.refs()
            response = _run(request, asked)
            response.get_data()
            after = asked.repo.git.refs()
            if before != after and asked.principal.user is not None:
                refs_changed(asked.repo, asked.principal.user, before, after)
        return response


def _sentence(error: ApiError) -> str:
    return "Invalid username or token." if error.status == 401 else error.message


def _check(repo: Repo | None, principal: Principal, *, pushes: bool) -> None:
    """Refuse with GitHub's statuses: 401 to ask for credentials, 404 to hide, 403 to deny."""
    nobody = principal.user is None
    if repo is None or not principal.sees(repo):
        raise (
            _Refused(401, "Authentication required")
            if nobody
            else _Refused(404, "Repository not found.")
        )
    if pushes:
        _check_push(repo, principal)
    elif repo.private and not principal.holds(repo, "contents", "read"):
        raise _Refused(403, "Write access to repository not granted.")


def _check_push(repo: Repo, principal: Principal) -> None:
    if principal.user is None:
        raise _Refused(401, "Authentication required")
    if not principal.holds(repo, "contents", "write"):
        login = principal.user.login
        raise _Refused(403, f"Permission to {repo.full_name}.git denied to {login}.")
    if repo.archived:
        raise _Refused(403, "This repository was archived so it is read-only.")


def _asks_for_version_2(request: Request, asked: _Request) -> bool:
    named = request.headers.get("Git-Protocol", "").split(":")
    return asked.rest == "info/refs" and not asked.pushes and "version=2" in named


def _run(request: Request, asked: _Request) -> Response:
    """Hand the request to `git http-backend` and read its CGI answer.

    The body goes through a temporary file, so that neither side waits for the other.
    """
    with tempfile.TemporaryFile() as body:
        shutil.copyfileobj(request.stream, body)
        body.seek(0)
        process = subprocess.Popen(
            ["git", "http-backend"],
            stdin=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(request, asked),
        )
    assert process.stdout is not None  # noqa: S101  (asked for above)
    status, headers = _head(process.stdout)
    return Response(_stream(process, process.stdout), status, headers)


def _environment(request: Request, asked: _Request) -> dict[str, str]:
    user = asked.principal.user
    environment = {
        **git_environment(),
        "GIT_PROJECT_ROOT": str(asked.repo.git.path.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{asked.repo.git.path.name}/{asked.rest}",
        "REQUEST_METHOD": request.method,
        "QUERY_STRING": request.query_string.decode("latin-1"),
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        "LOCAL_GITHUB_WORKFLOWS": _workflows(asked),
    }
    return {**environment, "REMOTE_USER": user.login} if user else environment


def _workflows(asked: _Request) -> str:
    held = asked.principal.holds(asked.repo, "workflows", "write")
    return "write" if held else "none"


def _head(stdout: IO[bytes]) -> tuple[int, dict[str, str]]:
    status, headers = 200, {}
    for line in iter(stdout.readline, b""):
        name, _, value = line.decode("latin-1").strip().partition(":")
        if not name:
            break
        if name.lower() == "status":
            status = int(value.split()[0])
        else:
            headers[name] = value.strip()
    return status, headers


def _stream(process: subprocess.Popen[bytes], stdout: IO[bytes]) -> Iterator[bytes]:
    """Pass the answer on; a reader that goes away ends the process."""
    try:
        while chunk := stdout.read(_CHUNK):
            yield chunk
    finally:
        stdout.close()
        process.kill()
        process.wait()
