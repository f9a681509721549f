"""A model that will not work as one would wish: each trouble has its message on the issue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.store import Run
from demo.github import Issue
from demo.scenario import Edit, Fault, Hang, HttpError, Reply, Reset, Scenario, Text
from tests.harbour.harbour import BODY, WRONG, Harbour

pytestmark = [pytest.mark.e2e, pytest.mark.machine]

PROSE = "Nothing needs to change: subtracting is what add() is for."
# What only the real Aider shows. How it takes the others is in tests/workers/recordings.
REAL = {
    "key": HttpError(Fault.AUTH),
    "overflow": HttpError(Fault.OVERFLOW),
    "prose": Text(PROSE),
    "malformed": Edit("calc.py", "no such line\n", "another\n"),
}
STAND_IN = {
    "quota": HttpError(Fault.QUOTA),
    "rate": HttpError(Fault.RATE_LIMIT),
    "server": HttpError(Fault.SERVER),
    "reset": Reset(),
    "hang": Hang(),
}


@dataclass(frozen=True)
class Troubled:
    """What became of all of them."""

    real: Harbour
    stand_in: Harbour
    issues: dict[str, Issue]

    def harbour(self, name: str) -> Harbour:
        return self.real if name in REAL else self.stand_in

    def run(self, name: str) -> Run:
        return self.harbour(name).run_of(self.issues[name])

    def said(self, name: str) -> str:
        return self.harbour(name).status_of(self.issues[name])

    def calls(self, name: str) -> int:
        bodies = [str(request.body) for request in self.harbour(name).model.requests]
        return sum(f"trouble: {name}" in body for body in bodies)


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    """All troubles, two at a time."""
    folder = tmp_path_factory.mktemp("troubles")
    short = {"DRYDOCK_AGENT_TIMEOUT_S": "3"}
    with (
        Harbour(folder / "1", replies_for(REAL), provider="bubblewrap", drivers=2) as real,
        Harbour(folder / "2", replies_for(STAND_IN), drivers=3, settings=short) as stand_in,
    ):
        issues = {}
        for harbour, troubles in ((real, REAL), (stand_in, STAND_IN)):
            for name in troubles:
                issues[name] = harbour.opens(harbour.repo, f"trouble: {name}", BODY)
                harbour.mona.labels(issues[name], "aider")
        real.settle()
        stand_in.settle()
        yield Troubled(real, stand_in, issues)


def replies_for(troubles: Mapping[str, Reply]) -> list[Scenario]:
    return [Scenario(name, (reply,), when=f"trouble: {name}") for name, reply in troubles.items()]


@pytest.mark.parametrize(
    ("name", "kind", "title"),
    [
        ("key", "model_auth", "The model's server rejected the key."),
        ("quota", "model_quota", "The money for the model ran out."),
        ("rate", "model_unavailable", "The model could not be reached."),
        ("server", "model_unavailable", "The model could not be reached."),
        ("reset", "model_unavailable", "The model could not be reached."),
        ("hang", "model_unavailable", "The model could not be reached."),
        ("overflow", "context_overflow", "The task did not fit into the model's context."),
        ("malformed", "agent", "Aider ended without a usable result."),
    ],
)
def test_the_trouble_is_named_on_the_issue(
    troubled: Troubled, name: str, kind: str, title: str
) -> None:
    assert (troubled.run(name).state, troubled.run(name).failure_kind) == ("failed", kind)
    said = troubled.said(name)
    assert f"**{title}**" in said
    assert "Nothing was pushed." in said
    assert "**Next:** " in said
    assert troubled.harbour(name).reactions_on(troubled.issues[name]) == ["eyes", "confused"]


def test_a_rejected_key_is_tried_once(troubled: Troubled) -> None:
    assert troubled.calls("key") == 1
    assert "`DRYDOCK_MODEL_API_KEY`" in troubled.said("key")


def test_an_answer_in_prose_is_passed_on(troubled: Troubled) -> None:
    assert troubled.run("prose").state == "no_changes"
    assert "**Aider answered in words and changed nothing.**" in troubled.said("prose")
    assert PROSE.partition(":")[0] in troubled.said("prose")
    assert troubled.real.reactions_on(troubled.issues["prose"]) == ["eyes"]


def test_malformed_edits_are_called_that(troubled: Troubled) -> None:
    assert "The model's edits did not fit the files that they were for." in troubled.said(
        "malformed"
    )


def test_nothing_of_all_that_reaches_the_repository(troubled: Troubled) -> None:
    for harbour in (troubled.real, troubled.stand_in):
        assert harbour.repo.branches() == ("main",)
        assert harbour.repo.pulls == ()
        assert harbour.repo.file("calc.py").decode() == WRONG
        assert harbour.provider().list() == []


def test_a_model_that_nobody_listens_for_is_called_unreachable(tmp_path: Path) -> None:
    base = "http://127.0.0.1:1/v1"
    with Harbour(tmp_path / "h", settings={"DRYDOCK_MODEL_API_BASE": base}) as harbour:
        harbour.labels()
        assert harbour.run_of().failure_kind == "model_unavailable"
        assert "**The model could not be reached.**" in harbour.status_of()
        assert "checks `DRYDOCK_MODEL_API_BASE`" in harbour.status_of()
