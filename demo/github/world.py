"""Everything that exists on the local GitHub, and the few ways to find it.

One re-entrant lock guards all of it: a request, a person's act or a push holds the lock for as
long as it changes things, so that what others see is always whole.
"""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from demo.github.deliveries import Courier
from demo.github.errors import not_found
from demo.github.faults import Faults
from demo.github.git import GitRepo
from demo.github.limits import RateLimits
from demo.github.recorder import Recorder
from demo.github.records import App, Installation, Repo, Token, User
from demo.github.signing import Signed
from demo.github.teams import Team

USER_TOKEN_PREFIX = "ghp_"
INSTALLATION_TOKEN_PREFIX = "ghs_"


def make_key() -> rsa.RSAPrivateKey:
    """Return a new key for an App, as long as GitHub's."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class World:
    """The state of the local GitHub. `clock` returns seconds since the epoch."""

    def __init__(self, root: Path, clock: Callable[[], float]) -> None:
        self.root = root
        self.clock = clock
        self.make_key = make_key
        self.lock = threading.RLock()
        self.base_url = "http://127.0.0.1"
        self.users: dict[str, User] = {}
        self.repos: dict[int, Repo] = {}
        self.repo_names: dict[str, int] = {}
        self.teams: list[Team] = []
        # An Enterprise Server signs nothing until its owner says so.
        self.signs_commits = True
        self.signed: dict[str, Signed] = {}
        self.apps: dict[int, App] = {}
        self.installations: dict[int, Installation] = {}
        self.tokens: dict[str, Token] = {}
        self.manifests: dict[str, tuple[float, dict[str, Any]]] = {}
        self.job_logs: dict[str, tuple[float, bytes]] = {}
        self.courier = Courier(clock, self.next_id)
        self.faults = Faults()
        self.limits = RateLimits(clock)
        self.recorder = Recorder()
        self._ids = itertools.count(1001)

    def next_id(self) -> int:
        return next(self._ids)

    def now(self) -> float:
        return self.clock()

    def random_secret(self) -> str:
        return secrets.token_hex(20)

    # accounts

    def add_user(self, login: str, kind: str = "User", *, name: str | None = None) -> User:
        """Register an account. ValueError when the login is taken."""
        with self.lock:
            if login.lower() in self.users:
                raise ValueError(f"the login {login} is taken")
            user = User(id=self.next_id(), login=login, kind=kind, name=name, created_at=self.now())
            self.users[login.lower()] = user
            return user

    def user(self, login: str) -> User:
        """Return a living account. ApiError 404 when there is none."""
        user = self.users.get(login.lower())
        if user is None or user.deleted:
            raise not_found()
        return user

    def find_user(self, login: str) -> User | None:
        user = self.users.get(login.lower())
        return None if user is None or user.deleted else user

    # repositories

    def add_repo(self, owner: User, name: str, default_branch: str, *, private: bool) -> Repo:
        """Create an empty repository. ValueError when the owner has one of that name."""
        with self.lock:
            key = f"{owner.login}/{name}".lower()
            if key in self.repo_names:
                raise ValueError(f"{key} exists already")
            repo_id = self.next_id()
            git = GitRepo.create(self.root / "repositories" / f"{repo_id}.git", default_branch)
            repo = Repo(
                id=repo_id,
                owner=owner,
                name=name,
                git=git,
                world=self,
                default_branch=default_branch,
                private=private,
                created_at=self.now(),
                pushed_at=self.now(),
            )
            self.repos[repo_id] = repo
            self.repo_names[key] = repo_id
            return repo

    def find_repo(self, full_name: str) -> Repo | None:
        """Return the repository that has, or once had, this name."""
        repo_id = self.repo_names.get(full_name.lower())
        return self.repos.get(repo_id) if repo_id is not None else None

    def rename_repo(self, repo: Repo, name: str) -> None:
        """Give a repository another name; the old one redirects from now on."""
        with self.lock:
            repo.name = name
            self.repo_names[repo.full_name.lower()] = repo.id

    def delete_repo(self, repo: Repo) -> None:
        with self.lock:
            del self.repos[repo.id]
            for installation in self.installations.values():
                if installation.repository_ids is not None:
                    installation.repository_ids.discard(repo.id)

    # Apps

    def app_by_slug(self, slug: str) -> App | None:
        return next((app for app in self.apps.values() if app.slug == slug), None)

    def installations_of(self, app: App) -> list[Installation]:
        return [one for one in self.installations.values() if one.app is app]

    def installation_on(self, app: App, repo: Repo) -> Installation | None:
        return next((one for one in self.installations_of(app) if one.covers(repo)), None)

    # tokens

    def issue_token(self, token_for: Callable[[str], Token], prefix: str) -> Token:
        """Make and remember a token of 36 random letters after its prefix."""
        with self.lock:
            token = token_for(prefix + secrets.token_hex(18))
            self.tokens[token.value] = token
            return token

    def live_token(self, value: str) -> Token | None:
        """Return a token that is known, not revoked and not past its time."""
        token = self.tokens.get(value)
        if token is None or token.revoked:
            return None
        if token.expires_at is not None and token.expires_at <= self.now():
            return None
        return token
