"""What all attempts of a run have spent together, as its row keeps it. Pure.

An attempt whose worker was killed has spent money too: the row is told with every heartbeat, and
the next attempt goes on counting from there.
"""

from __future__ import annotations

from app.report import Spending
from app.store import Run, RunFields


def spent_before(run: Run) -> Spending:
    """Return what earlier attempts of a run spent, as far as its row was told."""
    if run.model_calls == 0:
        return Spending()
    return Spending(
        input_tokens=run.input_tokens,
        output_tokens=run.output_tokens,
        cost_usd=run.cost_usd,
        calls=run.model_calls,
        estimated=run.usage_estimated,
    )


def together(one: Spending, other: Spending) -> Spending:
    """Add two; where the price of either is not known, that of the sum is not."""
    if not (one.calls and other.calls):
        return one if one.calls else other
    unknown = one.cost_usd is None or other.cost_usd is None
    return Spending(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_usd=None if unknown else (one.cost_usd or 0.0) + (other.cost_usd or 0.0),
        calls=one.calls + other.calls,
        estimated=one.estimated or other.estimated,
    )


def fields_of_spending(spending: Spending) -> RunFields:
    return RunFields(
        input_tokens=spending.input_tokens,
        output_tokens=spending.output_tokens,
        cost_usd=spending.cost_usd,
        model_calls=spending.calls,
        usage_estimated=spending.estimated,
    )
