"""A run's whole manifest: everything it may reach, and what else bounds it.

One function makes it for a run and for `drydock policy show`, so that the hash in a pull request is
the hash of what is printed beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.branches import PREFIX, flat_branch
from app.settings import Settings
from egress.meter import RUN_CAP, Cap
from egress.policy import Grant, Manifest
from workers.grants import Egress
from workers.model import ModelChoice

# What a run may push to: one new branch of ours.
PUSH_REFS = (f"refs/heads/{PREFIX}*", f"refs/heads/{flat_branch(PREFIX)}*")


@dataclass(frozen=True)
class Bounds:
    """What a manifest says beside its grants. `tier` is the provider's name, `ttl_s` seconds."""

    template_digest: str
    tier: str
    ttl_s: float
    caps: tuple[Cap, ...]


def make_manifest(run_id: str, model: ModelChoice, egress: Egress, bounds: Bounds) -> Manifest:
    """Return it; a person's or repository's name is not in it, only whose kind of cap it is."""
    grants: tuple[Grant, ...] = (model.route.grant, *egress.grants)
    terms = (
        ("credentials", " ".join(sorted(_credentials(grants)))),
        ("pinned_only", str(egress.pinned_only).lower()),
        ("refs", " ".join(PUSH_REFS)),
        ("template", bounds.template_digest),
        ("tier", bounds.tier),
        ("ttl_s", f"{bounds.ttl_s:g}"),
        *((_cap_name(cap), f"{cap.limit_usd:g}") for cap in bounds.caps),
    )
    return Manifest(run_id=run_id, grants=grants, terms=terms)


def run_cap(model: ModelChoice) -> Cap:
    return Cap(RUN_CAP, model.budget_usd, setting="DRYDOCK_BUDGET_USD")


def caps_by_settings(settings: Settings, model: ModelChoice) -> tuple[Cap, ...]:
    """Return the caps of a run that nobody has asked for yet."""
    shared = (
        ("DRYDOCK_BUDGET_REPO_DAY_USD", settings.budget_repo_day_usd),
        ("DRYDOCK_BUDGET_USER_DAY_USD", settings.budget_user_day_usd),
    )
    given = (Cap(name, limit, setting=name) for name, limit in shared if limit is not None)
    return (run_cap(model), *given)


def _cap_name(cap: Cap) -> str:
    return "cap:" + cap.setting.removeprefix("DRYDOCK_BUDGET_").split(maxsplit=1)[0].lower()


def _credentials(grants: Iterable[Grant]) -> set[str]:
    return {grant.credential for grant in grants if grant.credential is not None}
