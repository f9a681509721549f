"""A note on what was pushed when its base has moved on: the pull request stays as it is."""

from __future__ import annotations

import structlog

from app.github.compare import commits_behind
from app.github.errors import GitHubError
from app.github.gateway import GitHubGateway
from app.messages import base_moved
from workers.record import Record

log = structlog.get_logger()


def note_behind(gateway: GitHubGateway, record: Record) -> None:
    """Note how far what was pushed is behind. It is a courtesy: a GitHub that does not tell costs
    the run nothing."""
    try:
        base = _base(gateway, record)
        count = commits_behind(gateway, record.head_sha or "", base)
    except GitHubError as error:
        log.warning("publish.not_compared", run=record.asked.run_id, error=str(error))
        return
    said = base_moved(base, count)
    if count and said not in record.warnings:
        record.warnings.append(said)


def _base(gateway: GitHubGateway, record: Record) -> str:
    """A follow-up starts from a head, which is no base."""
    if record.continues is None:
        return record.base_ref
    return gateway.get_pull(record.continues).base_ref
