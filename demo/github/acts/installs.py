"""Apps registered, installed, suspended and removed; tokens handed out and taken back."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from demo.github.announce import (
    EVENT_PERMISSIONS,
    installation_event,
    installation_repositories_event,
    ping,
)
from demo.github.errors import ApiError, invalid_request
from demo.github.records import App, Installation, Repo, Token, User
from demo.github.world import INSTALLATION_TOKEN_PREFIX, World

TOKEN_LIFE_S = 3600
LEVELS = ("none", "read", "write", "admin")
PERMISSIONS = frozenset(
    {"actions", "administration", "checks", "contents", "deployments", "environments", "issues",
     "members", "metadata", "packages", "pages", "pull_requests", "repository_hooks", "secrets",
     "statuses", "workflows"}
)  # fmt: skip


@dataclass(frozen=True)
class NewApp:
    """What an App is registered with."""

    name: str
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    webhook_url: str | None = None
    webhook_secret: str | None = None
    external_url: str = "http://127.0.0.1/"
    description: str = ""
    setup_url: str | None = None


def register_app(world: World, owner: User, new: NewApp) -> tuple[App, str]:
    """Register an App and return it with its private key (PEM), which is kept nowhere else.

    ValueError for an unknown permission or event, or one that the permissions do not cover.
    """
    permissions = {**dict(new.permissions), "metadata": "read"}
    _check_grants(permissions, new.events)
    key = world.make_key()
    with world.lock:
        slug = _free_slug(world, new.name)
        app = App(
            id=world.next_id(),
            slug=slug,
            name=new.name,
            owner=owner,
            bot=world.add_user(f"{slug}[bot]", "Bot", name=new.name),
            public_key_pem=_public_pem(key),
            client_id=f"Iv23li{secrets.token_hex(7)}",
            permissions=permissions,
            events=tuple(new.events),
            created_at=world.now(),
            external_url=new.external_url,
            hook_id=world.next_id(),
            description=new.description,
            setup_url=new.setup_url,
        )
        world.apps[app.id] = app
        if new.webhook_url:
            set_webhook(world, app, new.webhook_url, new.webhook_secret)
    return app, _private_pem(key)


def _check_grants(permissions: Mapping[str, str], events: tuple[str, ...]) -> None:
    for name, level in permissions.items():
        if name not in PERMISSIONS or level not in LEVELS[1:]:
            raise ValueError(f"no such permission: {name}: {level}")
    for event in events:
        if event not in EVENT_PERMISSIONS:
            raise ValueError(f"no such event: {event}")
        if not any(needed in permissions for needed in EVENT_PERMISSIONS[event]):
            raise ValueError(f"the event {event} needs {' or '.join(EVENT_PERMISSIONS[event])}")


def _free_slug(world: World, name: str) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "app"
    number, slug = 1, base
    while f"{slug}[bot]" in world.users:
        number += 1
        slug = f"{base}-{number}"
    return slug


def _public_pem(key: rsa.RSAPrivateKey) -> str:
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public.decode()


def _private_pem(key: rsa.RSAPrivateKey) -> str:
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return private.decode()


def set_webhook(world: World, app: App, url: str | None, secret: str | None) -> None:
    """Point the App's webhook somewhere (None: nowhere) and ping it."""
    with world.lock:
        app.webhook_url, app.webhook_secret = url, secret
        if url:
            ping(world, app)


def install(world: World, app: App, account: User, repos: Iterable[Repo] | None) -> Installation:
    """Install an App on an account's repositories (None: all), or add them to what is there."""
    with world.lock:
        present = next((i for i in world.installations_of(app) if i.account is account), None)
        if present is not None:
            add_repositories(world, present, repos or ())
            return present
        now = world.now()
        installation = Installation(
            id=world.next_id(),
            app=app,
            account=account,
            permissions=dict(app.permissions),
            events=app.events,
            created_at=now,
            updated_at=now,
            repository_ids=None if repos is None else {repo.id for repo in repos},
        )
        world.installations[installation.id] = installation
        covered = covered_repositories(world, installation)
        installation_event(world, installation, "created", account, covered)
        return installation


def covered_repositories(world: World, installation: Installation) -> list[Repo]:
    return [repo for repo in world.repos.values() if installation.covers(repo)]


def add_repositories(world: World, installation: Installation, repos: Iterable[Repo]) -> None:
    with world.lock:
        new = [repo for repo in repos if not installation.covers(repo)]
        if new and installation.repository_ids is not None:
            installation.repository_ids.update(repo.id for repo in new)
            actor = installation.account
            installation_repositories_event(world, installation, actor, added=new)


def remove_repositories(world: World, installation: Installation, repos: Iterable[Repo]) -> None:
    with world.lock:
        gone = [repo for repo in repos if installation.covers(repo)]
        if installation.repository_ids is None:
            covered = covered_repositories(world, installation)
            installation.repository_ids = {repo.id for repo in covered}
        installation.repository_ids.difference_update(repo.id for repo in gone)
        if gone:
            actor = installation.account
            installation_repositories_event(world, installation, actor, removed=gone)


def accept_permissions(
    world: World, installation: Installation, permissions: Mapping[str, str]
) -> None:
    """Let an App have further permissions, as it had asked and an owner now grants."""
    _check_grants({**installation.app.permissions, **permissions}, installation.events)
    with world.lock:
        installation.app.permissions.update(permissions)
        installation.permissions.update(permissions)
        installation.updated_at = world.now()
        covered = covered_repositories(world, installation)
        account = installation.account
        installation_event(world, installation, "new_permissions_accepted", account, covered)


def uninstall(world: World, installation: Installation) -> None:
    """Remove the App: its tokens die at once."""
    with world.lock:
        covered = covered_repositories(world, installation)
        del world.installations[installation.id]
        for token in world.tokens.values():
            token.revoked = token.revoked or token.installation is installation
        installation_event(world, installation, "deleted", installation.account, covered)


def suspend(world: World, installation: Installation) -> None:
    with world.lock:
        installation.suspended_at = world.now()
        installation.suspended_by = installation.account
        installation_event(world, installation, "suspend", installation.account, [])


def unsuspend(world: World, installation: Installation) -> None:
    with world.lock:
        installation.suspended_at = installation.suspended_by = None
        installation_event(world, installation, "unsuspend", installation.account, [])


@dataclass(frozen=True)
class Narrowing:
    """What a token is asked to be limited to; None keeps what the installation has."""

    repository_ids: frozenset[int] | None = None
    repositories: frozenset[str] | None = None
    permissions: Mapping[str, str] | None = None


def mint_token(world: World, installation: Installation, wanted: Narrowing) -> Token:
    """Make an installation token that lives an hour.

    ApiError 403 when the installation is suspended, 422 when more is asked than it has.
    """
    if installation.suspended_at is not None:
        raise ApiError(403, "This installation has been suspended")
    with world.lock:
        ids = _narrowed_ids(world, installation, wanted)
        permissions = _narrowed_permissions(installation, wanted.permissions)

        def token(value: str) -> Token:
            return Token(
                value=value,
                expires_at=world.now() + TOKEN_LIFE_S,
                installation=installation,
                permissions=permissions,
                repository_ids=ids,
            )

        return world.issue_token(token, INSTALLATION_TOKEN_PREFIX)


def _narrowed_ids(
    world: World, installation: Installation, wanted: Narrowing
) -> frozenset[int] | None:
    if wanted.repository_ids is None and wanted.repositories is None:
        return None
    covered = covered_repositories(world, installation)
    by_id = {repo.id for repo in covered}
    by_name = {repo.name.lower(): repo.id for repo in covered}
    names = {name.lower() for name in wanted.repositories or ()}
    unknown_ids = (wanted.repository_ids or frozenset()) - by_id
    if unknown_ids or names - by_name.keys():
        raise ApiError(
            422,
            "There is at least one repository that does not exist or is not accessible to the "
            "parent installation.",
        )
    chosen = (wanted.repository_ids or frozenset()) | {by_name[name] for name in names}
    if not chosen:
        raise invalid_request("No more than 500 and no fewer than 1 repository is allowed.")
    return frozenset(chosen)


def _narrowed_permissions(
    installation: Installation, wanted: Mapping[str, str] | None
) -> dict[str, str]:
    """Return what the token may do. Metadata stays readable, whatever is asked.

    An empty object narrows nothing: PyGithub sends one whenever no permissions are given, and
    gets a full token for it.
    """
    if not wanted:
        return dict(installation.permissions)
    for name, level in wanted.items():
        held = installation.permissions.get(name, "none")
        if level not in LEVELS or LEVELS.index(level) > LEVELS.index(held):
            message = "The permissions requested are not granted to this installation."
            raise ApiError(422, message)
    return {**wanted, "metadata": "read"}
