"""The local GitHub itself: one server on loopback, and the hands that run it.

with LocalGitHub(root) as gh:
    alice = gh.create_user("alice")
    repo = gh.create_repo("acme", "widgets", files={"README.md": "hello"})
    repo.grant(alice, "write")
    app = gh.create_app("drydock", permissions={...}, events=[...])
    gh.install(app, repo)
    issue = alice.opens_issue(repo, "It breaks", "When I press the button")
    alice.labels(issue, "aider")
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from demo.github.acts import checks, installs, teams
from demo.github.acts.installs import NewApp
from demo.github.errors import not_found
from demo.github.faults import Faults
from demo.github.limits import RateLimits
from demo.github.people import Person
from demo.github.recorder import Recorder
from demo.github.records import App, CheckRun, Delivery, Installation, Repo, User
from demo.github.site import Site
from demo.github.teams import Team
from demo.github.trees import Files
from demo.github.world import World

HOST = "127.0.0.1"
DEFAULT_PERMISSIONS = {
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "checks": "write",
    "metadata": "read",
}
DEFAULT_EVENTS = (
    "issues",
    "issue_comment",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "check_run",
    "check_suite",
    "push",
)


@dataclass(frozen=True)
class AppKeys:
    """What the owner of a new App is handed: its id, its name, and its secrets."""

    app_id: int
    slug: str
    client_id: str
    private_key_pem: str = field(repr=False)
    webhook_secret: str | None = field(repr=False)
    app: App = field(repr=False)

    @property
    def bot(self) -> User:
        return self.app.bot


class _Handler(WSGIRequestHandler):
    timeout = 120

    def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002  (werkzeug's name)
        """Say nothing of ordinary requests; the recorder has them."""
        if type == "error":
            super().log(type, message, *args)

    def connection_dropped(self, error: BaseException, environ: Any = None) -> None:
        """The connection is lost: read nothing more from it, and say no goodbye."""
        self.close_connection = True
        self.server.lost(self.connection)  # type: ignore[attr-defined]


class _Server(ThreadedWSGIServer):
    """Keeps its connections, so that stopping can end all threads."""

    daemon_threads = False
    block_on_close = True

    def __init__(self, listener: socket.socket, app: Any) -> None:
        self._open: set[Any] = set()
        self._lost: set[Any] = set()
        self._open_lock = threading.Lock()
        port = listener.getsockname()[1]
        super().__init__(HOST, port, app, _Handler, fd=listener.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def lost(self, request: Any) -> None:
        with self._open_lock:
            self._lost.add(request)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
            lost = request in self._lost
            self._lost.discard(request)
        if lost:
            self.close_request(request)
        else:
            super().shutdown_request(request)

    def end(self) -> None:
        self.shutdown()
        with self._open_lock:
            for connection in self._open:
                _hang_up(connection)
        self.server_close()


def _hang_up(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the other side was faster


class LocalGitHub:
    """A stateful GitHub on loopback. `clock` (epoch seconds) rules tokens and timestamps."""

    def __init__(
        self, root: Path, *, port: int = 0, clock: Callable[[], float] = time.time
    ) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.world = World(root, clock)
        self._port = port
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    # running

    def start(self) -> Self:
        """Listen. OSError when the port is taken."""
        with socket.create_server((HOST, self._port), backlog=128) as listener:
            self._port = listener.getsockname()[1]
            self._server = _Server(listener, Site(self.world))
        self.world.base_url = f"http://{HOST}:{self._port}"
        self.world.courier.start()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="local-github", daemon=True
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """End every thread; a stopped server may be started again on the same port."""
        if self._server is None or self._thread is None:
            return
        self._server.end()
        self._thread.join()
        self.world.courier.stop()
        self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Web pages and git: `<url>/<owner>/<repo>(.git)`."""
        return self.world.base_url

    @property
    def web_url(self) -> str:
        return self.world.base_url

    @property
    def api_url(self) -> str:
        return f"{self.world.base_url}/api/v3"

    @property
    def faults(self) -> Faults:
        return self.world.faults

    @property
    def recorder(self) -> Recorder:
        return self.world.recorder

    @property
    def limits(self) -> RateLimits:
        return self.world.limits

    # accounts and repositories

    def create_user(self, login: str, *, name: str | None = None) -> Person:
        return Person(self.world, self.world.add_user(login, name=name))

    def create_organization(self, login: str) -> User:
        return self.world.add_user(login, "Organization")

    def user(self, login: str) -> Person:
        """Return somebody who has an account. ApiError 404 otherwise."""
        return Person(self.world, self.world.user(login))

    def create_team(self, org: object, name: str, *members: object) -> Team:
        """Make a team of an organization, with these people in it."""
        account = self.world.user(str(org))
        people = [self.world.user(str(one)) for one in members]
        return teams.create_team(self.world, account, name, people)

    def delete_user(self, who: object) -> None:
        """Delete an account: what it wrote stays, by nobody."""
        self.world.user(str(who)).deleted = True

    def create_repo(
        self,
        owner: object,
        name: str,
        files: Files | None = None,
        *,
        default_branch: str = "main",
        private: bool = False,
    ) -> Repo:
        """Create a repository, with one commit when there are files.

        An owner that does not exist yet becomes an organization.
        """
        account = self.world.find_user(str(owner)) or self.create_organization(str(owner))
        repo = self.world.add_repo(account, name, default_branch, private=private)
        if files:
            repo.commit(files, message="Initial commit")
        return repo

    def repo(self, full_name: str) -> Repo:
        """Return a repository by `owner/name`. ApiError 404 when there is none."""
        found = self.world.find_repo(full_name)
        if found is None:
            raise not_found()
        return found

    def rename_repo(self, repo: Repo, name: str) -> None:
        self.world.rename_repo(repo, name)

    def delete_repo(self, repo: Repo) -> None:
        self.world.delete_repo(repo)

    # Apps

    def create_app(
        self,
        name: str = "drydock",
        *,
        webhook_url: str | None = None,
        webhook_secret: str | None = None,
        permissions: Mapping[str, str] | None = None,
        events: Sequence[str] | None = None,
        owner: object = "app-owner",
    ) -> AppKeys:
        """Register an App. With a webhook URL, GitHub pings it at once."""
        account = self.world.find_user(str(owner)) or self.world.add_user(str(owner))
        new = NewApp(
            name=name,
            permissions=DEFAULT_PERMISSIONS if permissions is None else permissions,
            events=DEFAULT_EVENTS if events is None else tuple(events),
            webhook_url=webhook_url,
            webhook_secret=webhook_secret,
        )
        app, private_key = installs.register_app(self.world, account, new)
        return AppKeys(app.id, app.slug, app.client_id, private_key, webhook_secret, app)

    def set_webhook(self, app: AppKeys, url: str | None, secret: str | None = None) -> None:
        """Point an App's webhook elsewhere; the secret stays unless another is given."""
        chosen = secret or app.app.webhook_secret
        installs.set_webhook(self.world, app.app, url, chosen)

    def install(self, app: AppKeys, repos: Repo | Iterable[Repo]) -> Installation:
        """Install an App on repositories of one owner, or add them to its installation there."""
        chosen = [repos] if isinstance(repos, Repo) else list(repos)
        return installs.install(self.world, app.app, chosen[0].owner, chosen)

    def installation(self, app: AppKeys, repo: Repo) -> Installation:
        """Return the App's installation that covers a repository. ApiError 404 when none does."""
        found = self.world.installation_on(app.app, repo)
        if found is None:
            raise not_found()
        return found

    def uninstall(self, app: AppKeys, repos: Repo | Iterable[Repo] | None = None) -> None:
        """Take repositories out of the App's installation, or (None) remove it altogether."""
        if repos is None:
            for one in self.world.installations_of(app.app):
                installs.uninstall(self.world, one)
            return
        chosen = [repos] if isinstance(repos, Repo) else list(repos)
        found = self.installation(app, chosen[0])
        installs.remove_repositories(self.world, found, chosen)

    def accept_permissions(self, app: AppKeys, repo: Repo, **permissions: str) -> None:
        """Have an owner grant the App what it asks for beyond its first permissions."""
        found = self.installation(app, repo)
        installs.accept_permissions(self.world, found, permissions)

    def suspend(self, app: AppKeys) -> None:
        for one in self.world.installations_of(app.app):
            installs.suspend(self.world, one)

    def unsuspend(self, app: AppKeys) -> None:
        for one in self.world.installations_of(app.app):
            installs.unsuspend(self.world, one)

    def report_check(
        self,
        app: AppKeys,
        repo: Repo,
        sha: str,
        *,
        name: str,
        conclusion: str | None = None,
        output: Mapping[str, Any] | None = None,
        log: bytes | None = None,
    ) -> CheckRun:
        """Let an App (a build service, say) report a check run on a commit.

        A job of GitHub Actions is reported by an App of that name, and has a `log`.
        """
        status = "completed" if conclusion else "in_progress"
        report = checks.Report(
            name=name, status=status, conclusion=conclusion, output=output, log=log
        )
        return checks.create_run(repo, app.app, sha, report)

    # webhooks

    @property
    def deliveries(self) -> tuple[Delivery, ...]:
        """Every delivery, oldest first."""
        return self.world.courier.deliveries

    def redeliver(self, delivery: Delivery | int) -> Delivery:
        """Send a delivery again. KeyError for an unknown id."""
        if isinstance(delivery, Delivery):
            return self.world.courier.redeliver(delivery)
        found = {one.id: one for one in self.deliveries}
        return self.world.courier.redeliver(found[delivery])

    def wait_for_deliveries(self, timeout: float = 30.0) -> None:
        """Return when every webhook has been answered or given up. TimeoutError if not."""
        self.world.courier.wait_idle(timeout)
