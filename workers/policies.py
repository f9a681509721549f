"""The operator's settings, as the values that the parts ask for. Pure."""

from __future__ import annotations

from app.settings import Settings
from app.store import Run
from workers.dock import DockLimits
from workers.gate import GateRules
from workers.guest_repo import Identity
from workers.recreate import Signature

_MB = 1_000_000


def dock_limits(settings: Settings) -> DockLimits:
    return DockLimits(
        memory_mib=settings.memory_mib,
        cpus=settings.cpus,
        disk_mib=settings.disk_mib,
        ttl_s=settings.ttl_minutes * 60,
        setup_s=settings.setup_timeout_s,
        agent_s=settings.agent_timeout_s,
        test_s=settings.test_timeout_s,
    )


def gate_rules(settings: Settings) -> GateRules:
    return GateRules(max_file_bytes=int(settings.max_file_mb * _MB))


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
        trailers={"Drydock-Run": run.id},
    )
