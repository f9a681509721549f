"""The check runs of a run: on the head that a follow-up starts from, and on what was pushed.

GitHub never moves a check to another commit. So the one that showed a follow-up at work is
completed where it is, and the new head gets its own. Each is looked for before it is made.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from app.github.checks import ensure_check_run
from app.github.errors import Invalid, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.github.values import CheckRunInfo, CheckRunWish
from app.messages import CheckOutput, StatusView, check_output
from app.states import RunState
from app.store import Run, TargetKind, runs, writing
from workers.services import Services

CHECK_NAME = "Drydock"

log = structlog.get_logger()


def check_start(services: Services, gateway: GitHubGateway, run: Run, view: StatusView) -> None:
    """Show how far a follow-up is on the head that it starts from; nothing for other runs.

    The row keeps which check it is: `base_sha` changes when the commits are rebased.
    """
    if run.target is not TargetKind.PULL_REQUEST or run.base_sha is None:
        return
    wish = _wish(view, run.base_sha, _of_the_start(view))
    shown = _ensure(gateway, wish, run.check_run_id)
    if shown is not None and run.check_run_id is None:
        with writing(services.engine) as session:
            runs.update(session, run.id, services.clock(), check_run_id=shown.id)


def check_pushed(gateway: GitHubGateway, view: StatusView, head: str, text: str) -> None:
    """Put our own result on what was pushed, where branch protection and reviewers look."""
    _ensure(gateway, replace(_wish(view, head, check_output(view)), text=text), None)


def _of_the_start(view: StatusView) -> CheckOutput:
    """What was tested is not the head that the run started from: success is not said there."""
    output = check_output(view)
    if view.state is not RunState.PUBLISHED:
        return output
    return replace(output, conclusion="neutral", annotations=())


def _wish(view: StatusView, head: str, output: CheckOutput) -> CheckRunWish:
    return CheckRunWish(
        name=CHECK_NAME,
        head_sha=head,
        external_id=view.run_id,
        status=output.status,
        conclusion=output.conclusion,
        title=output.title,
        summary=output.summary,
        details_url=view.run_url,
        annotations=output.annotations,
        buttons=output.buttons,
    )


def _ensure(
    gateway: GitHubGateway, wish: CheckRunWish, known_id: int | None
) -> CheckRunInfo | None:
    """Comments and the pull request say the same: a check that GitHub refuses fails no run."""
    try:
        return ensure_check_run(gateway, wish, known_id)
    except (NotAllowed, NotFound, Invalid) as error:
        log.warning("check.refused", run=wish.external_id, error=str(error))
        return None
