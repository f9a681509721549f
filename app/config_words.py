"""Sentences about what a repository's config brought about, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.repo_config import CONFIG_PATH
from app.report import TestResult
from app.text import code_block, code_span, inline

_NAMED = 5
_RETRY = "comment `/aider retry`"


def failing_tests(test: TestResult, *, continues: bool = False) -> str:
    """Say why nothing came of a run that did its work; it may have continued a pull request."""
    what = "nothing was added to the pull request" if continues else "there is no pull request"
    how = "took too long" if test.timed_out else f"ended with exit status {test.exit_code}"
    shown = f"\n\n{code_block(test.tail)}" if test.tail.strip() else ""
    return (
        f"**The tests fail, so {what}.** {code_span(test.command)} {how}.\n\n"
        f"`on_failing_tests: none` in `{CONFIG_PATH}` says so. Nothing was pushed."
        f"{shown}\n\n"
        f"**Next:** {_RETRY}, or say more exactly what to change: `/aider in FILE, change …`."
    )


def failing_tests_detail(test: TestResult) -> str:
    """Say the same in one line."""
    return f"The tests fail ({test.command}), and on_failing_tests is none."


def ttl_detail(said: str, ttl_s: float) -> str:
    """Add to what is said of a run's time that the repository itself made it short."""
    minutes, rest = divmod(ttl_s, 60)
    time = f"{ttl_s:g} seconds" if rest else f"{minutes:g} minutes"
    return f"{said} This repository allows {time} (`ttl` in {CONFIG_PATH})."


def reviewer_refused(name: str, why: str) -> str:
    return f"GitHub does not let {name} be asked for a review: {why}"


def labels_refused(labels: Sequence[str], why: str) -> str:
    return f"GitHub did not take the labels {', '.join(labels[:_NAMED])}: {why}"


def not_signed(why: str) -> str:
    return (
        f"`signed_commits` in {CONFIG_PATH} asks for it, but GitHub does not show these commits as"
        f" verified: {why}"
    )


def hints_missing(hints: Sequence[str]) -> str:
    named = ", ".join(hints[:_NAMED])
    return f"`files` in {CONFIG_PATH} names what is not in the repository: {named}"


def team_unknown(team: str, why: str) -> str:
    """Say to somebody who may otherwise start runs that it is not known whether they still may."""
    return (
        f"**I could not ask GitHub who is in {code_span(team)}**, and `allow` in `{CONFIG_PATH}`"
        f" lets only its members start runs. {inline(why, 400)}\n\n"
        "**Next:** an owner of the organization lets this App read *Members* (on the App's page and"
        " in its installation), or a maintainer changes `allow`."
    )
