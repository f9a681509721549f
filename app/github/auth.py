"""The App's identity, and installation tokens for one repository and one purpose.

A token is minted for exactly one repository id and only the permissions of its scope, kept until
shortly before it expires, minted again when a run outlives it, and revoked when the run ends.
Tokens are never logged, and no repr shows one.

https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TypeVar

import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from github.Auth import Auth, Token
from github.GithubApp import GithubApp

from app.app_key import UnusableKey, load_app_key
from app.github.errors import AccessLost, GitHubError, Invalid, NotAllowed, NotFound
from app.github.transport import Api, StrictRequester, meaning, repeat
from app.github.values import AppInfo

JWT_BACKDATE_S = 60
JWT_LIFE_S = 9 * 60
RENEW_BEFORE_S = 5 * 60

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class BadPrivateKey(ValueError):
    """The App's private key cannot be used; the text says why, and holds none of it."""


class Scope(Enum):
    """What a token may do. Each has `metadata: read`, which GitHub adds to any other."""

    CONTENTS_READ = "contents_read"
    CONTENTS_WRITE = "contents_write"
    CONVERSATION = "conversation"
    # Only for repositories whose config names teams; an App may do without this permission.
    TEAMS = "teams"
    TEAM_REVIEWS = "team_reviews"
    # Only for the logs of failed checks that GitHub Actions ran; an App may do without it too.
    ACTIONS_LOGS = "actions_logs"

    @property
    def permissions(self) -> Mapping[str, str]:
        return _PERMISSIONS[self]


_PERMISSIONS: Mapping[Scope, Mapping[str, str]] = {
    Scope.CONTENTS_READ: {"contents": "read", "metadata": "read"},
    Scope.CONTENTS_WRITE: {"contents": "write", "metadata": "read"},
    Scope.CONVERSATION: {
        "issues": "write",
        "pull_requests": "write",
        "checks": "write",
        "metadata": "read",
    },
    Scope.TEAMS: {"members": "read", "metadata": "read"},
    Scope.ACTIONS_LOGS: {"actions": "read", "metadata": "read"},
    Scope.TEAM_REVIEWS: {"members": "read", "pull_requests": "write", "metadata": "read"},
}


@dataclass(frozen=True, slots=True)
class InstallationToken:
    """One token and when it ends, in seconds since the epoch."""

    value: str = field(repr=False)
    expires_at: float

    def outlives(self, moment: float) -> bool:
        return moment < self.expires_at


def app_key(pem: str) -> RSAPrivateKey:
    """Return the App's key. BadPrivateKey, in words, when it is none."""
    try:
        return load_app_key(pem)
    except UnusableKey as error:
        raise BadPrivateKey(f"the App's private key {error}") from None


def app_jwt(app_id: int, private_key: RSAPrivateKey, now: float) -> str:
    """Return a JWT that speaks for the App itself.

    `iat` lies 60 s back against clock drift, `exp` 9 min ahead; GitHub allows 10.
    """
    claims = {
        "iat": int(now) - JWT_BACKDATE_S,
        "exp": int(now) + JWT_LIFE_S,
        # GitHub takes the id as text too, and PyJWT insists on that.
        "iss": str(app_id),
    }
    return jwt.encode(claims, private_key, algorithm="RS256")


class _AppAuth(Auth):
    """A fresh JWT for every request: signing takes a millisecond, and none is ever stale."""

    def __init__(self, app_id: int, private_key: RSAPrivateKey, clock: Callable[[], float]) -> None:
        self._app_id = app_id
        self._private_key = private_key
        self._clock = clock

    @property
    def token_type(self) -> str:
        return "Bearer"

    @property
    def token(self) -> str:
        return app_jwt(self._app_id, self._private_key, self._clock())


class TokenSource:
    """Mints, keeps and revokes installation tokens; answers who the App is.

    Safe to use from several threads. Each process needs its own cache: a forked child inherits a
    copy, and revokes what the copy holds.
    """

    def __init__(
        self,
        *,
        api_url: str,
        app_id: int,
        private_key: str,
        ca_bundle: Path | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """BadPrivateKey when the key cannot be used. Nothing is asked from GitHub yet."""
        self.api = Api(api_url, ca_bundle)
        self.clock = clock
        self.sleep = sleep
        self._app_id = app_id
        self._auth = _AppAuth(app_id, app_key(private_key), clock)
        self._kept: dict[tuple[int, int, Scope], InstallationToken] = {}
        self._app: AppInfo | None = None
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"TokenSource(app_id={self._app_id}, api_url={self.api.url!r})"

    def app_info(self) -> AppInfo:
        """Return who the App is, asked once. NotAllowed when GitHub does not accept its key."""
        with self._lock:
            if self._app is None:
                app = self._as_app(lambda ours: GithubApp(ours, url="/app").complete())
                self._app = AppInfo(app.id, app.slug, dict(app.permissions))
            return self._app

    def contents_token(self, installation_id: int, repo_id: int, *, write: bool = False) -> str:
        """Return a token for git: to fetch, or with `write` to push. Errors as of `token`."""
        scope = Scope.CONTENTS_WRITE if write else Scope.CONTENTS_READ
        return self.token(installation_id, repo_id, scope)

    def conversation_token(self, installation_id: int, repo_id: int) -> str:
        """Return a token for issues, pull requests and checks. Errors as of `token`."""
        return self.token(installation_id, repo_id, Scope.CONVERSATION)

    def token(self, installation_id: int, repo_id: int, scope: Scope) -> str:
        """Return a token that lives for RENEW_BEFORE_S at least.

        AccessLost when the App is not installed there any more or is suspended, NotAllowed when
        its key or permissions do not suffice.
        """
        key = (installation_id, repo_id, scope)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.outlives(self.clock() + RENEW_BEFORE_S):
                kept = self._kept[key] = self._mint(installation_id, repo_id, scope)
            return kept.value

    def forget(self, value: str) -> None:
        """Drop a token that GitHub no longer takes, so that the next call mints another."""
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if kept.value != value}

    def revoke(self, installation_id: int, repo_id: int, scope: Scope | None = None) -> bool:
        """Revoke every token for a repository, or that of one scope; again does nothing.

        False when GitHub could not be told: those tokens are forgotten here and end by
        themselves within the hour.
        """
        with self._lock:
            mine = [
                key
                for key in self._kept
                if key[:2] == (installation_id, repo_id) and scope in (None, key[2])
            ]
            tokens = [self._kept.pop(key) for key in mine]
        # Every one is tried, whatever became of the one before.
        outcomes = [self._revoke_one(token) for token in tokens]
        return all(outcomes)

    def _revoke_one(self, token: InstallationToken) -> bool:
        requester = self.api.requester(Token(token.value))
        try:
            self._ask(lambda: requester.requestJsonAndCheck("DELETE", "/installation/token"))
        except NotAllowed:
            # 401: it had expired or been revoked, which is what was wanted.
            return True
        except GitHubError as error:
            _log.warning("token_not_revoked", error=str(error))
            return False
        finally:
            requester.close()
        return True

    def _mint(self, installation_id: int, repo_id: int, scope: Scope) -> InstallationToken:
        # PyGithub's own call cannot narrow a token to repositories.
        wish = {"repository_ids": [repo_id], "permissions": dict(scope.permissions)}
        path = f"/app/installations/{installation_id}/access_tokens"
        try:
            _, data = self._as_app(lambda ours: ours.requestJsonAndCheck("POST", path, input=wish))
        except (NotFound, Invalid) as error:
            raise _lost(error, scope) from error
        return InstallationToken(data["token"], _epoch(data["expires_at"]))

    def _as_app(self, ask: Callable[[StrictRequester], T]) -> T:
        """Ask with the App's JWT. The connection is not kept: a forked child would share it."""
        requester = self.api.requester(self._auth)
        try:
            return self._ask(lambda: ask(requester))
        except NotAllowed as error:
            if error.status != 401:
                raise
            raise NotAllowed(
                f"GitHub does not accept the App's credentials: {error}."
                " Check DRYDOCK_APP_ID, the private key, and this host's clock"
            ) from error
        finally:
            requester.close()

    def _ask(self, ask: Callable[[], T]) -> T:
        def once() -> T:
            with meaning(self.clock):
                return ask()

        # Minting, revoking and asking who we are may all be done twice.
        return repeat(once, self.sleep, self.clock)


def _lost(error: NotFound | Invalid, scope: Scope) -> GitHubError:
    """What a refusal to mint means. 422 names either the repository or the permissions."""
    if isinstance(error, Invalid) and error.mentions("permission"):
        wanted = ", ".join(f"{name}: {level}" for name, level in scope.permissions.items())
        return NotAllowed(
            f"the installation has not granted what Drydock needs ({wanted}): {error}"
        )
    return AccessLost(f"the App is not installed on that repository any more: {error}")


def _epoch(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
