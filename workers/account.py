"""What a run used and tried, from what its broker and its meter saw. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.report import RefusalLine, Spending
from egress.ledger import ModelCall
from egress.meter import Usage
from egress.policy import Grant, GrantKind, Manifest, Phase, Refusal
from egress.vendors import CallError
from workers.outcome import ModelCallFact


@dataclass(frozen=True)
class Account:
    """What a run used and tried, whether or not it came to an end."""

    spending: Spending = field(default_factory=Spending)
    refusals: tuple[RefusalLine, ...] = ()
    refusal_count: int = 0
    manifest_sha256: str = ""
    tier: str = ""
    audit_head: str = ""
    could_reach: tuple[str, ...] = ()


def spending_of(usage: Usage) -> Spending:
    return Spending(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        calls=usage.calls,
        estimated=usage.estimated,
    )


def could_reach(manifest: Manifest) -> tuple[str, ...]:
    """Name what a run may reach, for everybody: of private hosts only what they are called."""
    return tuple(dict.fromkeys(map(_reached, manifest.grants)))


def _reached(grant: Grant) -> str:
    if grant.kind is GrantKind.MODEL_ROUTE:
        return f"the model's API ({grant.name})"
    where = grant.name if grant.private else grant.host
    phases = ", ".join(phase.value for phase in Phase if phase in grant.phases)
    return f"{where} ({phases})"


def fold_refusals(refusals: tuple[Refusal, ...]) -> tuple[RefusalLine, ...]:
    """Count equal refusals once each, in the order of their first."""
    counts: dict[tuple[str, str], int] = {}
    for refusal in refusals:
        key = (refusal.target, refusal.reason)
        counts[key] = counts.get(key, 0) + 1
    return tuple(RefusalLine(target, reason, n) for (target, reason), n in counts.items())


def call_facts(calls: tuple[ModelCall, ...]) -> tuple[ModelCallFact, ...]:
    return tuple(
        ModelCallFact(status=call.status, error=_error_words(call), kind=call.error)
        for call in calls
    )


def _error_words(call: ModelCall) -> str | None:
    """Return our word for what went wrong with a call, and the vendor's own sentence."""
    if call.error is CallError.BUDGET:
        return call.detail
    return f"{call.error}: {call.detail}" if call.error is not None else None
