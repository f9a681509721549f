"""The composition root: everything a worker needs, built once from the settings and passed in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from alembic.util import CommandError
from celery import Celery
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

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
from app.store import BadDatabaseUrl, make_engine, upgrade
from sandbox.pool import Pool, default_size
from sandbox.provider import MachineSpec, Template
from sandbox.providers import make_provider
from sandbox.template.store import TemplateStore
from workers.dock import machine_spec
from workers.git import Git
from workers.grants import check_egress, operator_egress
from workers.model import choose_model
from workers.policies import dock_limits


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Patience:
    """How long a run waits for what comes back by itself, in seconds."""

    database_s: float = 60.0
    github_s: float = 1200.0


@dataclass(frozen=True)
class Services:
    """What a worker works with. Frozen: a test builds its own.

    `wait` waits for an event for so many seconds at most, and says whether it is set.
    """

    settings: Settings
    github: GitHubSettings
    engine: Engine
    tokens: TokenSource
    git: Git
    clock: Callable[[], datetime] = field(default=utc_now)
    wait: Callable[[threading.Event, float], bool] = field(default=threading.Event.wait)
    patience: Patience = field(default_factory=Patience)

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
    def provider(self) -> Pool:
        """The strongest provider that works here, or the one that the operator names.

        Behind a pool, which keeps nothing ready until a process that drives runs opens it.
        """
        made = make_provider(
            self.settings.provider, self.settings.state_dir, self.settings.qemu_accel
        )
        size = self.settings.pool_size
        return Pool(
            made,
            default_size(made.name) if size is None else size,
            self._next_machine,
            self.settings.state_dir / "waking.lock",
        )

    def _next_machine(self) -> MachineSpec | None:
        """What the next run will probably need; None when there is nothing to make it from."""
        try:
            return probable_machine(self.settings, self.template())
        except SettingsError:
            return None

    @cached_property
    def bot_login(self) -> str:
        """The login that the App acts under, asked from GitHub once when it is not set."""
        return self.settings.own_login or self.tokens.app_info().bot_login

    def template(self, name: str | None = None) -> Template:
        """Return a baked template, the operator's if none is named. SettingsError as of
        `find_template`."""
        return find_template(self.settings, name)

    def git_url(self, repo: str) -> str:
        """Return where git finds a repository, `owner/name`; it holds no credential."""
        return f"{self.github.url}/{repo}.git"

    def gateway(self, handle: RepoHandle) -> GitHubGateway:
        return GitHubGateway(handle, self.tokens)


def probable_machine(settings: Settings, template: Template) -> MachineSpec:
    """Return what a run will most probably ask for. SettingsError when there is no model."""
    model = choose_model(settings, template.path / "prices.json")
    egress = operator_egress(settings, template.path / "rootfs")
    return machine_spec("", model, template, dock_limits(settings), egress)


def find_template(settings: Settings, name: str | None = None) -> Template:
    """Return a baked template. SettingsError that says how to bake it when there is none."""
    name = name or settings.template
    found = TemplateStore(settings.state_dir).find(name)
    if found is None:
        raise SettingsError((f"template {name} is not baked: drydock template bake {name}",))
    return found


def template_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the templates that are baked as they are defined now."""
    baked = TemplateStore(settings.state_dir).list()
    return tuple(sorted({template.name for template in baked if template.current}))


def build_services(settings: Settings) -> Services:
    """Build them all. SettingsError naming what to set; the database is brought up to date."""
    github = require_github(settings)
    require_model(settings)
    check_egress(settings)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    engine = open_database(settings)
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


def open_database(settings: Settings) -> Engine:
    """Open the database and bring it up to date. SettingsError when it cannot be had."""
    try:
        engine = make_engine(settings.effective_database_url)
        upgrade(engine)
    except BadDatabaseUrl as error:
        raise SettingsError((f"DRYDOCK_DATABASE_URL: {error}",)) from error
    except CommandError as error:
        problem = f"the database belongs to a newer version of Drydock: {error}"
        raise SettingsError((problem,)) from error
    except SQLAlchemyError as error:
        raise SettingsError((f"the database does not answer: {database_words(error)}",)) from error
    return engine


def database_words(error: SQLAlchemyError) -> str:
    """Return what the database itself said; SQLAlchemy's text would add statements and values."""
    return str(getattr(error, "orig", None) or type(error).__name__).strip()
