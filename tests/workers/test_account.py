"""What a run used and tried, from what its broker and its meter saw."""

from __future__ import annotations

from app.report import RefusalLine, Spending
from egress.ledger import ModelCall
from egress.meter import Usage
from egress.policy import Grant, GrantKind, Manifest, Phase, Refusal
from egress.vendors import CallError
from workers.account import call_facts, could_reach, fold_refusals, spending_of


def test_equal_refusals_are_counted_once_each_in_the_order_of_their_first() -> None:
    refusals = tuple(
        Refusal(at, Phase.AGENT, target, "no grant")
        for at, target in enumerate(("b.invalid:443", "a.invalid:443", "b.invalid:443"))
    )
    assert fold_refusals(refusals) == (
        RefusalLine("b.invalid:443", "no grant", 2),
        RefusalLine("a.invalid:443", "no grant", 1),
    )


def test_what_was_in_reach_names_no_private_host() -> None:
    model = Grant("openai", GrantKind.MODEL_ROUTE, "https", "llm.intern.example", 443)
    both = frozenset({Phase.VERIFY, Phase.SETUP})
    pip = Grant("pip", GrantKind.TUNNEL, "https", "pkgs.example", 443, phases=both)
    own = Grant("artefacts", GrantKind.TUNNEL, "https", "nexus.intern.example", 443, private=True)
    assert could_reach(Manifest("r", (model, pip, pip, own))) == (
        "the model's API (openai)",
        "pkgs.example (setup, verify)",
        "artefacts (agent)",
    )


def test_an_unknown_price_stays_unknown() -> None:
    usage = Usage(10, 2, None, 1, estimated=True, unpriced=("m",))
    assert spending_of(usage) == Spending(10, 2, None, 1, estimated=True)


def test_a_calls_error_keeps_our_word_and_the_vendors_sentence() -> None:
    def call(error: CallError | None, detail: str) -> ModelCall:
        return ModelCall(0, "openai", 429, 0, 0, None, 0.1, error, detail=detail)

    calls = (
        call(None, ""),
        call(CallError.QUOTA, "You exceeded your current quota"),
        call(CallError.BUDGET, "the cap of this run is reached"),
    )
    assert [fact.error for fact in call_facts(calls)] == [
        None,
        "quota: You exceeded your current quota",
        "the cap of this run is reached",
    ]
