"""Spending caps, with the real Aider: the run ends at once, and says whose cap it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.scenario import Edit, Fault, Scenario, failing
from tests.harbour.harbour import BODY, RIGHT, WRONG, Harbour

pytestmark = [pytest.mark.e2e, pytest.mark.machine]

HALF = "def add(a, b):\n    return a * b + 1\n"
# The first answer fails the test, so that there would be a second call.
TWO_CALLS = Scenario("two", (Edit("calc.py", WRONG, HALF), Edit("calc.py", HALF, RIGHT)))
DEAR = {
    "DRYDOCK_MODEL_INPUT_USD_PER_MTOK": "1000",
    "DRYDOCK_MODEL_OUTPUT_USD_PER_MTOK": "1000",
    "DRYDOCK_BUDGET_USD": "0.5",
    "DRYDOCK_BUDGET_REPO_DAY_USD": "0.9",
}


@pytest.fixture(scope="module")
def dear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    folder = tmp_path_factory.mktemp("dear")
    with Harbour(folder / "h", [TWO_CALLS], provider="bubblewrap", settings=DEAR) as harbour:
        yield harbour


def test_a_run_ends_at_its_cap_and_the_next_at_the_repositorys(dear: Harbour) -> None:
    first = dear.opens(dear.repo, "First", BODY)
    dear.mona.labels(first, "aider")
    dear.settle()
    run = dear.run_of(first)
    assert (run.state, run.failure_kind) == ("failed", "budget")
    assert run.cost_usd is not None
    assert run.cost_usd >= 0.5
    said = dear.status_of(first)
    assert "**The spending cap is reached.**" in said
    assert "spending cap for this run is reached" in said
    assert "DRYDOCK_BUDGET_USD" in said.replace("\\", "")
    assert len(dear.model.requests) == 1
    assert dear.repo.branches() == ("main",)

    second = dear.opens(dear.repo, "Second", BODY)
    dear.mona.labels(second, "aider")
    dear.settle()
    run = dear.run_of(second)
    assert (run.state, run.failure_kind) == ("failed", "budget")
    said = dear.status_of(second)
    assert f"spending cap for {dear.repo.full_name} today is reached" in said
    assert "DRYDOCK_BUDGET_REPO_DAY_USD" in said.replace("\\", "")


@pytest.mark.parametrize("fault", [Fault.AUTH, Fault.QUOTA])
def test_a_final_error_ends_aider_at_once(
    tmp_path_factory: pytest.TempPathFactory, fault: Fault
) -> None:
    folder = tmp_path_factory.mktemp("final")
    with Harbour(folder / "h", [failing(fault)], provider="bubblewrap") as harbour:
        harbour.labels()
        report = harbour.run_of().report
        assert report is not None
        assert harbour.run_of().failure_kind in {"model_auth", "model_quota"}
        assert len(harbour.model.requests) == 1
        # Left alone, Aider would back off for more than a minute.
        assert report["seconds_by_phase"]["agent"] < 30
