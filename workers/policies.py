"""The operator's settings, as the values that the parts ask for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import SecretStr

from app.repo_config import RepoConfig
from app.settings import SECRET_FIELDS, Settings, SettingsError
from app.store import Run
from egress.inject import PLACEHOLDER
from workers.dock import DockLimits
from workers.gate import (
    STRUCTURAL,
    Allowance,
    GateRules,
    Level,
    PathRule,
    Rule,
    asks_for_fewer_tests,
)
from workers.guest_repo import Identity
from workers.recreate import Signature

_MB = 1_000_000


def dock_limits(settings: Settings, config: RepoConfig | None = None) -> DockLimits:
    """Return what bounds a run: the operator's limits, and a shorter life where a repository
    wants that."""
    longest_s = settings.ttl_minutes * 60
    ttl_s = config.ttl if config is not None and config.ttl is not None else longest_s
    return DockLimits(
        memory_mib=settings.memory_mib,
        cpus=settings.cpus,
        disk_mib=settings.disk_mib,
        ttl_s=min(ttl_s, longest_s),
        setup_s=settings.setup_timeout_s,
        agent_s=settings.agent_timeout_s,
        test_s=settings.test_timeout_s,
    )


def gate_rules(
    settings: Settings,
    config: RepoConfig | None = None,
    allowances: tuple[Allowance, ...] = (),
    asked: str = "",
) -> GateRules:
    """Return what holds for a run: the operator's floor, under the repository's choice.

    `asked` is what was asked for in words, which may be to remove tests. SettingsError for a rule
    that there is none of.
    """
    chosen = config.protected_paths if config is not None else ()
    return GateRules(
        max_file_bytes=int(settings.max_file_mb * _MB),
        floor=_path_rules(settings.protected_paths),
        paths=_path_rules(chosen),
        levels=_rule_levels(settings),
        allowances=allowances,
        tests_may_go=asks_for_fewer_tests(asked),
    )


def _path_rules(pairs: Iterable[tuple[str, str]]) -> tuple[PathRule, ...]:
    return tuple(PathRule(glob, Level(level)) for glob, level in pairs)


def _rule_levels(settings: Settings) -> dict[Rule, Level]:
    unknown = [name for name, _ in settings.gate_levels if name not in set(Rule) - STRUCTURAL]
    if unknown:
        known = ", ".join(sorted(set(Rule) - STRUCTURAL))
        raise SettingsError((f"DRYDOCK_GATE_LEVELS: {unknown[0]} is not one of {known}",))
    return {Rule(name): Level(level) for name, level in settings.gate_levels}


def canaries_of(settings: Settings) -> tuple[str, ...]:
    """Return what must never come out of a machine: its own placeholder, and our secrets.

    The secrets were never put into one; that one of them comes out would say that this is broken.
    """
    secrets = (getattr(settings, name) for name in sorted(SECRET_FIELDS))
    values = (secret.get_secret_value() for secret in secrets if isinstance(secret, SecretStr))
    return (PLACEHOLDER, *values)


def author_of(settings: Settings) -> Identity:
    return Identity(settings.commit_name, settings.commit_email)


def requester_of(login: str, account_id: int) -> Identity:
    """Return who asked, by the address that GitHub links to the account and to nobody's mailbox.

    https://docs.github.com/en/account-and-profile/reference/email-addresses-reference
    """
    return Identity(login, f"{account_id}+{login}@users.noreply.github.com")


def signature_of(settings: Settings, run: Run) -> Signature:
    """Return what the run's commits carry. The date is the run's own, so that the same work done
    again gives the same hashes."""
    return Signature(
        author=author_of(settings),
        at=int(run.created_at.timestamp()),
        co_author=requester_of(run.asked_by, run.asked_by_id),
        trailers=_trailers(run),
    )


def _trailers(run: Run) -> dict[str, str]:
    brief = {"Drydock-Brief": run.brief_sha256} if run.brief_sha256 else {}
    return {"Drydock-Run": run.id, **brief}
