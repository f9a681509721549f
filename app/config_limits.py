"""What an operator lets a repository choose. A repository narrows; it never widens. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.config_values import PERMISSIONS
from app.plain_yaml import read_plain
from app.policy import permission_rank
from app.repo_config import ConfigError, RepoConfig, nearest, parse_repo_config
from app.settings import Settings


@dataclass(frozen=True)
class Limits:
    """The most that a repository may ask for. `ttl_s` is in seconds.

    `templates` are the names of those that are baked here; None where that is not known.
    `permission` is the least that a repository may ask of people who start runs.
    """

    models: tuple[str, ...]
    ttl_s: float
    budget_usd: float
    permission: str
    templates: tuple[str, ...] | None = None
    attempts: int = 1


@dataclass(frozen=True)
class _Excess:
    key: str
    reason: str
    nearest: str | None = None


def limits_of(settings: Settings, templates: tuple[str, ...] | None = None) -> Limits:
    """Return the operator's limits."""
    return Limits(
        models=settings.model_choices,
        ttl_s=settings.ttl_minutes * 60,
        budget_usd=settings.budget_usd,
        permission="triage" if settings.allow_triage else settings.min_permission,
        templates=templates,
    )


def parse_within(data: bytes | None, limits: Limits) -> RepoConfig | ConfigError:
    """Return the config if it is right and stays within the operator's limits."""
    config = parse_repo_config(data)
    if isinstance(config, ConfigError):
        return config
    return next(_excesses(data or b"", config, limits), config)


def excesses_of(data: bytes, limits: Limits) -> tuple[ConfigError, ...]:
    """Return where a right file asks for more than it may have; () for a wrong one too."""
    config = parse_repo_config(data)
    return () if isinstance(config, ConfigError) else tuple(_excesses(data, config, limits))


def error_at(data: bytes | None, key: str, reason: str, near: str | None = None) -> ConfigError:
    """Return an error about a key of a file that can be read, with its line."""
    return ConfigError(reason, read_plain(data or b"").line_of((key,)), near)


def _excesses(data: bytes, config: RepoConfig, limits: Limits) -> Iterator[ConfigError]:
    for found in (*_beyond_figures(config, limits), *_beyond_lists(config, limits)):
        yield error_at(data, found.key, found.reason, found.nearest)


def _beyond_figures(config: RepoConfig, limits: Limits) -> Iterator[_Excess]:
    if config.ttl is not None and config.ttl > limits.ttl_s:
        most = f"{limits.ttl_s / 60:g} minutes"
        yield _Excess("ttl", f"ttl can be {most} at most here (DRYDOCK_TTL_MINUTES)")
    if config.budget_usd is not None and config.budget_usd > limits.budget_usd:
        most = f"{limits.budget_usd:g}"
        yield _Excess("budget_usd", f"budget_usd can be {most} at most here (DRYDOCK_BUDGET_USD)")
    if config.attempts is not None and config.attempts > limits.attempts:
        yield _Excess("attempts", f"attempts can be {limits.attempts} at most here")


def _beyond_lists(config: RepoConfig, limits: Limits) -> Iterator[_Excess]:
    if config.model is not None and config.model not in limits.models:
        yield _one_of("model", config.model, limits.models, "DRYDOCK_MODEL and DRYDOCK_MODELS")
    baked = limits.templates
    if config.template is not None and baked is not None and config.template not in baked:
        yield _one_of("template", config.template, baked, "those baked here")
    if config.allow in PERMISSIONS and _is_less(config.allow, limits.permission):
        least = limits.permission
        reason = f"allow can be {least} or more here (DRYDOCK_MIN_PERMISSION)"
        yield _Excess("allow", reason, least)


def _one_of(key: str, value: str, right: tuple[str, ...], whose: str) -> _Excess:
    known = ", ".join(right) or "none"
    return _Excess(key, f"{key} can be one of: {known} ({whose})", nearest(value, right))


def _is_less(permission: str, least: str) -> bool:
    return permission_rank(permission) < permission_rank(least)
