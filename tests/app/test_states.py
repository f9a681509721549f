from __future__ import annotations

from itertools import product

import pytest

from app.states import (
    ACTIVE,
    ENDED,
    PHASES,
    TRANSITIONS,
    IllegalTransition,
    RunEvent,
    RunState,
    mermaid,
    next_state,
)


def test_every_state_has_a_row_and_is_active_or_ended() -> None:
    assert set(TRANSITIONS) == set(RunState) == ACTIVE | ENDED
    assert not ACTIVE & ENDED


@pytest.mark.parametrize(("state", "event"), list(product(RunState, RunEvent)))
def test_every_cell_leads_somewhere_or_is_illegal(state: RunState, event: RunEvent) -> None:
    if event in TRANSITIONS[state]:
        assert next_state(state, event) is TRANSITIONS[state][event]
    else:
        with pytest.raises(IllegalTransition, match=f"a run that is {state} cannot {event}"):
            next_state(state, event)


def test_advancing_goes_through_the_phases_in_order() -> None:
    state = next_state(RunState.QUEUED, RunEvent.CLAIM)
    seen = [state]
    while RunEvent.ADVANCE in TRANSITIONS[state]:
        state = next_state(state, RunEvent.ADVANCE)
        seen.append(state)
    assert tuple(seen) == PHASES
    assert next_state(state, RunEvent.PUBLISH) is RunState.PUBLISHED


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_ended_run_never_moves_again(state: RunState) -> None:
    assert not TRANSITIONS[state]


@pytest.mark.parametrize("state", sorted(ACTIVE))
def test_an_active_run_can_always_be_cancelled_and_can_fail(state: RunState) -> None:
    assert next_state(state, RunEvent.CANCEL) is RunState.CANCELLED
    assert next_state(state, RunEvent.FAIL) is RunState.FAILED


def test_only_the_last_phase_can_claim_success() -> None:
    can = [state for state in RunState if RunEvent.PUBLISH in TRANSITIONS[state]]
    assert can == [RunState.PUBLISH]


def test_a_worker_that_died_gives_the_run_back_from_any_phase() -> None:
    assert all(next_state(phase, RunEvent.RELEASE) is RunState.QUEUED for phase in PHASES)


def test_every_state_can_be_reached() -> None:
    reached, todo = {RunState.QUEUED}, [RunState.QUEUED]
    while todo:
        new = set(TRANSITIONS[todo.pop()].values()) - reached
        reached |= new
        todo += new
    assert reached == set(RunState)


def test_the_diagram_shows_every_cell_of_the_table() -> None:
    lines = mermaid().splitlines()
    assert lines[0] == "stateDiagram-v2"
    for state, row in TRANSITIONS.items():
        for event, target in row.items():
            (arrow,) = [line for line in lines if line.startswith(f"    {state} --> {target}: ")]
            assert event in arrow.split(": ")[1].split(", ")
    assert all(f"    {state} --> [*]" in lines for state in ENDED)
