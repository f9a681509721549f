"""What a pull request of ours is given once it is open: labels, and requests for reviews.

The pull request is there whatever becomes of these. What GitHub refuses is told in its body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.config_words import labels_refused, reviewer_refused
from app.github.errors import Invalid, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.messages import pull_request_body
from app.states import RunEvent
from workers.record import Ending, Record

_REFUSALS = (Invalid, NotAllowed, NotFound)


def invite(gateway: GitHubGateway, record: Record) -> None:
    """Label the pull request and ask for reviews. May be repeated. Errors: GitHubError."""
    number = record.pull_number or 0
    said = (*_label(gateway, number, record.labels), *_ask(gateway, number, record.reviewers))
    new = [warning for warning in said if warning not in record.warnings]
    if new:
        record.warnings += new
        body = pull_request_body(record.report(Ending(RunEvent.PUBLISH)))
        gateway.update_pull(number, body=body)


def _label(gateway: GitHubGateway, number: int, labels: Sequence[str]) -> Iterator[str]:
    if not labels:
        return
    try:
        gateway.add_labels(number, *labels)
    except _REFUSALS as error:
        yield labels_refused(labels, str(error))


def _ask(gateway: GitHubGateway, number: int, reviewers: Sequence[str]) -> Iterator[str]:
    """Ask all at once, which tells them once; one by one where GitHub refuses somebody."""
    if not reviewers:
        return
    if len(reviewers) > 1 and _refusal(gateway, number, reviewers) is None:
        return
    for reviewer in reviewers:
        why = _refusal(gateway, number, (reviewer,))
        if why is not None:
            yield reviewer_refused(reviewer, why)


def _refusal(gateway: GitHubGateway, number: int, reviewers: Sequence[str]) -> str | None:
    """Ask for reviews and return GitHub's words where it refuses, None where it does not."""
    owner = gateway.handle.owner.lower()
    teams = [name.partition("/") for name in reviewers if "/" in name]
    if any(org.lower() != owner for org, _, _ in teams):
        return "the team is not one of this repository's organization"
    people = [name for name in reviewers if "/" not in name]
    try:
        gateway.request_reviewers(number, people, [slug for _, _, slug in teams])
    except _REFUSALS as error:
        return str(error)
    return None
