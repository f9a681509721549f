"""The composition root: everything a worker needs, built once from the settings and passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from celery import Celery
from sqlalchemy import Engine

from app.github.auth import TokenSource
from app.github.gateway import GitHubGateway
from app.github.values import RepoHandle
from app.queue import make_queue
from app.settings import (
    GitHubSettings,
    Settings,
    SettingsError,
    require_github,
    require_model,
    system_ca_bundle,
)
from app.store import make_engine, upgrade
from sandbox.provider import Provider, Template
from sandbox.providers import make_provider
from sandbox.template.store import TemplateStore
from workers.git import Git


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Services:
    """What a worker works with. Frozen: a test builds its own."""

    settings: Settings
    github: GitHubSettings
    engine: Engine
    tokens: TokenSource
    git: Git
    clock: Callable[[], datetime] = field(default=utc_now)

    @property
    def redis_url(self) -> str:
        if self.settings.redis_url is None:
            raise SettingsError(
                ("DRYDOCK_REDIS_URL is not set; `drydock up` starts a private Redis by itself",)
            )
        return self.settings.redis_url

    @cached_property
    def queue(self) -> Celery:
        return make_queue(self.redis_url)

    @cached_property
    def provider(self) -> Provider:
        """The strongest provider that works here, or the one that the operator names."""
        return make_provider(self.settings.provider, self.settings.state_dir)

    @cached_property
    def bot_login(self) -> str:
        """The login that the App acts under, asked from GitHub once when it is not set."""
        return self.settings.own_login or self.tokens.app_info().bot_login

    def template(self) -> Template:
        """Return the baked template. SettingsError that says how to bake it when there is none."""
        return find_template(self.settings)

    def gateway(self, handle: RepoHandle) -> GitHubGateway:
        return GitHubGateway(handle, self.tokens)


def find_template(settings: Settings) -> Template:
    found = TemplateStore(settings.state_dir).find(settings.template)
    if found is None:
        name = settings.template
        raise SettingsError((f"template {name} is not baked: drydock template bake {name}",))
    return found


def build_services(settings: Settings) -> Services:
    """Build them all. SettingsError naming what to set; the database is brought up to date."""
    github = require_github(settings)
    require_model(settings)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    engine = make_engine(settings.effective_database_url)
    upgrade(engine)
    bundle = system_ca_bundle(settings)
    git_home = settings.state_dir / "git-home"
    git_home.mkdir(exist_ok=True)
    tokens = TokenSource(
        api_url=github.api_url,
        app_id=github.app_id,
        private_key=github.private_key.get_secret_value(),
        ca_bundle=bundle,
    )
    return Services(settings, github, engine, tokens, Git(home=git_home, ca_bundle=bundle))
