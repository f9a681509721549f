"""What is said when a brake holds a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from app.brakes import Brake, BrakeKind
from app.messages.words import OPERATOR, token

_WHAT: Mapping[BrakeKind, tuple[str, str]] = {
    BrakeKind.ROUNDS: (
        "{limit} runs in a row on this pull request were asked for by no person",
        "look at it, and say what to do (`/aider …`) or push a commit",
    ),
    BrakeKind.USER_HOUR: (
        "{limit} runs were asked for by the same account in the last hour",
        "ask again later",
    ),
    BrakeKind.REPO_HOUR: (
        "{limit} runs were started in this repository in the last hour",
        "ask again later",
    ),
    BrakeKind.OPEN_PULLS: (
        "{limit} of Drydock's pull requests are open in this repository",
        "merge or close some of them, and ask again",
    ),
}


def brake_marker(brake: Brake, at: datetime) -> str:
    """The first line of the comment that names a brake: once for each hour."""
    return f"<!-- drydock:reply to={token(f'{brake.kind}.{at:%Y%m%d%H}')} -->"


def brake_reached(brake: Brake) -> str:
    """Say which brake holds, and what lets it go. The same words each time: they are said once."""
    what, next_ = _WHAT[brake.kind]
    return (
        f"**Nothing was started: {what.format(limit=brake.limit)}**, which is as many as there may"
        " be. `/aider force` does not change that.\n\n"
        f"**Next:** {next_}; or {OPERATOR} raises `DRYDOCK_{brake.kind.upper()}`. This is said once"
        " an hour; whatever else it holds here is answered with 😕 alone."
    )
