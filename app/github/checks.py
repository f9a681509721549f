"""Our check runs: each made once, and brought up to date. https://docs.github.com/en/rest/checks/runs"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from github.CheckRun import CheckRun
from github.Commit import Commit
from github.GithubObject import NotSet, Opt
from github.Repository import Repository

from app.github.convert import to_check_run
from app.github.gateway import GitHubGateway
from app.github.transport import StrictRequester
from app.github.values import CheckAnnotation, CheckRunInfo, CheckRunWish


def ensure_check_run(
    gateway: GitHubGateway, wish: CheckRunWish, known_id: int | None = None
) -> CheckRunInfo:
    """Have one check run with that name and external id on that commit, as wished.

    NotAllowed when the installation has not granted `checks: write`.
    """
    if known_id is not None:
        return update_check_run(gateway, known_id, wish)
    check = gateway.ensure(
        look=lambda: _find(gateway, wish), create=lambda talk: _create(gateway, talk, wish)
    )
    return check if check.stands_as(wish) else update_check_run(gateway, check.id, wish)


def update_check_run(gateway: GitHubGateway, check_run_id: int, wish: CheckRunWish) -> CheckRunInfo:
    """Let a check run stand as wished. NotFound when there is none with that id."""
    url = f"{gateway.path}/check-runs/{check_run_id}"

    def edit(talk: StrictRequester) -> CheckRunInfo:
        check = CheckRun(talk, url=url)
        check.edit(
            name=wish.name,
            details_url=_given(wish.details_url),
            status=wish.status,
            conclusion=_given(wish.conclusion),
            output=_output(wish),
            actions=_buttons(wish),
        )
        return to_check_run(check)

    def look() -> CheckRunInfo | None:
        check = gateway.ask(lambda talk: to_check_run(CheckRun(talk, url=url).complete()))
        return check if check.stands_as(wish) else None

    # Annotations that are sent twice stand there twice.
    return gateway.ensure(look, edit) if wish.annotations else gateway.ask(edit)


def _find(gateway: GitHubGateway, wish: CheckRunWish) -> CheckRunInfo | None:
    def look(talk: StrictRequester) -> list[CheckRunInfo]:
        commit = Commit(talk, url=f"{gateway.path}/commits/{wish.head_sha}")
        found = commit.get_check_runs(check_name=wish.name, filter="all")
        return [to_check_run(check) for check in found]

    return next((c for c in gateway.ask(look) if c.external_id == wish.external_id), None)


def _create(gateway: GitHubGateway, talk: StrictRequester, wish: CheckRunWish) -> CheckRunInfo:
    made = Repository(talk, url=gateway.path).create_check_run(
        wish.name,
        wish.head_sha,
        details_url=_given(wish.details_url),
        external_id=wish.external_id,
        status=wish.status,
        conclusion=_given(wish.conclusion),
        output=_output(wish),
        actions=_buttons(wish) or NotSet,
    )
    return to_check_run(made)


def _given(value: str | None) -> Opt[str]:
    return NotSet if value is None else value


def _output(wish: CheckRunWish) -> dict[str, Any]:
    text = {"text": wish.text} if wish.text else {}
    notes = [_annotation(each) for each in wish.annotations]
    shown = {"annotations": notes} if notes else {}
    return {"title": wish.title, "summary": wish.summary, **text, **shown}


def _annotation(note: CheckAnnotation) -> dict[str, Any]:
    return {
        "path": note.path,
        "start_line": 1,
        "end_line": 1,
        "annotation_level": note.level,
        "title": note.title,
        "message": note.message,
    }


def _buttons(wish: CheckRunWish) -> list[dict[str, str]]:
    """Return the buttons; an empty list takes away those that are there."""
    return [asdict(button) for button in wish.buttons]
