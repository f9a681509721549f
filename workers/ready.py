"""A draft for its failing tests alone is one no longer once a follow-up mends them."""

from __future__ import annotations

from app.config_words import is_ready_now, not_made_ready
from app.github.errors import Invalid, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.states import RunState
from app.store import Run, reading, tallies
from workers.record import Record
from workers.reports import report_of_row
from workers.services import Services


def make_ready(services: Services, run: Run, gateway: GitHubGateway, record: Record) -> None:
    """Mark a pull request ready for review where the repository wants none with passing tests as
    a draft.

    Only one that our last push left as a draft: what a person made of it since is theirs. May be
    repeated. What GitHub refuses is a warning. Errors: GitHubError.
    """
    if record.keeps_draft() or not _left_as_draft(services, run):
        return
    number = record.pull_number or 0
    try:
        if gateway.get_pull(number).draft:
            gateway.mark_ready(number)
            record.warnings.append(is_ready_now())
    except (Invalid, NotAllowed, NotFound) as error:
        record.warnings.append(not_made_ready(str(error)))


def _left_as_draft(services: Services, run: Run) -> bool:
    """Say whether the run that published to it before this one wanted a draft."""
    with reading(services.engine) as session:
        earlier = tallies.of_pull(
            session, run.repo_id, run.issue_number, run.trigger_delivery_id or ""
        )
    pushed = (one for one in earlier if one.state is RunState.PUBLISHED and not one.undoes)
    last = next(pushed, None)
    return last is not None and report_of_row(last).draft
