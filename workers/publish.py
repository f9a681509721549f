"""What passed the gate goes out: one ref, one pull request, one check run; each looked for first.

The contents token that may write is minted here, after the verdict, and given back right after the
push.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from app.branches import branch_name, names_to_try, side_branches
from app.config_words import not_signed
from app.github.auth import Scope
from app.github.errors import GitHubUnavailable
from app.github.gateway import GitHubGateway
from app.github.values import PullInfo
from app.messages import (
    StatusView,
    provenance_text,
    pull_request_body,
    pull_request_title,
)
from app.states import FailureKind, RunEvent
from app.store import Run
from workers.attest import attest
from workers.behind import note_behind
from workers.checks import check_pushed
from workers.follow import Onto, place
from workers.git import HttpAuth
from workers.inspection import Passed
from workers.invite import invite
from workers.journal import Journal
from workers.push import Pushed, PushRejected, PushTrouble
from workers.record import Ending, Record
from workers.reports import as_json
from workers.send import Send, by_git, send_new
from workers.services import Services
from workers.signed import by_github


def publish(
    services: Services,
    run: Run,
    gateway: GitHubGateway,
    journal: Journal,
    record: Record,
    passed: Passed,
) -> Ending:
    """Push, open the pull request, report on its head. Every step may be repeated.

    Errors: GitHubError; `LostRun` from the journal.
    """
    if record.continues is not None:
        rejected = _add_to_pull(services, run, gateway, journal, record, passed)
    else:
        rejected = _make_pull(services, run, gateway, journal, record, passed)
    if rejected is not None:
        if rejected.trouble is PushTrouble.UNREACHABLE:
            raise GitHubUnavailable(_rejection(rejected))
        return Ending(RunEvent.FAIL, FailureKind.GITHUB, _rejection(rejected))
    _check(gateway, run, record, _provenance(services, run, record))
    return Ending(RunEvent.PUBLISH)


def _make_pull(
    services: Services,
    run: Run,
    gateway: GitHubGateway,
    journal: Journal,
    record: Record,
    passed: Passed,
) -> PushRejected | None:
    with _pushing(services, run) as (url, auth):
        send = _way_out(services, gateway, record, url, auth)
        pushed = send_new(send, passed, _names(run))
    if isinstance(pushed, PushRejected):
        return pushed
    _note_pushed(journal, record, pushed, passed)
    note_behind(gateway, record)
    pull = _open_pull(gateway, record)
    record.pull_number, record.pull_url = pull.number, pull.html_url
    journal.note(pull_number=pull.number, pull_url=pull.html_url)
    invite(gateway, record)
    return None


def _add_to_pull(
    services: Services,
    run: Run,
    gateway: GitHubGateway,
    journal: Journal,
    record: Record,
    passed: Passed,
) -> PushRejected | None:
    """Put a follow-up where it belongs; what was decided is noted before anything is pushed."""

    def about_to_push(rebased: Passed, head: str) -> None:
        record.rebased, record.base_sha = True, head
        record.commits, record.head_sha = rebased.commits, rebased.head_sha
        report = as_json(record.report(Ending(RunEvent.PUBLISH)))
        journal.note(head_sha=record.head_sha, base_sha=head, report=report)

    with _pushing(services, run) as (url, auth):
        onto = Onto(url, auth, run.base_ref or "", record.base_sha)
        aside = side_branches(run.issue_number, run.id)
        send = _way_out(services, gateway, record, url, auth)
        placed = place(services.git, send, passed, onto, aside, about_to_push)
    if isinstance(placed, PushRejected):
        return placed
    record.aside = placed.aside
    record.pull_number, record.pull_url = run.pull_number, run.pull_url
    _note_pushed(journal, record, placed.pushed, placed.passed)
    if not record.aside:
        note_behind(gateway, record)
    return None


def _way_out(
    services: Services, gateway: GitHubGateway, record: Record, url: str, auth: HttpAuth
) -> Send:
    """Return how commits go out; GitHub makes them where the repository wants them signed."""
    if record.signed_commits:
        return by_github(services.git, gateway.objects(), url, auth)
    return by_git(services.git, url, auth)


def _note_pushed(journal: Journal, record: Record, pushed: Pushed, passed: Passed) -> None:
    """Speak of what the server holds from now on: commits that it made have shas of their own."""
    record.branch = pushed.ref.removeprefix("refs/heads/")
    if not pushed.made:
        journal.note(branch=record.branch)
        return
    pairs = zip(passed.commits, pushed.made, strict=True)
    record.commits = tuple(replace(commit, sha=sha) for commit, sha in pairs)
    record.head_sha = pushed.sha
    if pushed.unsigned and (said := not_signed(pushed.unsigned)) not in record.warnings:
        record.warnings.append(said)
    report = as_json(record.report(Ending(RunEvent.PUBLISH)))
    journal.note(branch=record.branch, head_sha=record.head_sha, report=report)


def _provenance(services: Services, run: Run, record: Record) -> str:
    """What an undo pushes was made by no machine, so there is nothing to state about one."""
    if record.undoes:
        return ""
    return provenance_text(attest(services, run, record.report(Ending(RunEvent.PUBLISH))))


@contextmanager
def _pushing(services: Services, run: Run) -> Iterator[tuple[str, HttpAuth]]:
    """Lend where to push to, with a token that may write; it is given back whatever happens."""
    url = services.git_url(run.repo)
    token = services.tokens.contents_token(run.installation_id, run.repo_id, write=True)
    try:
        yield url, HttpAuth(url, token)
    finally:
        services.tokens.revoke(run.installation_id, run.repo_id, Scope.CONTENTS_WRITE)


def _names(run: Run) -> Iterator[str]:
    """Yield the branch of an earlier attempt of this run, then our name, then others like it."""
    if run.branch:
        yield run.branch
    yield from names_to_try(branch_name(run.issue_number, run.issue_title))


def _open_pull(gateway: GitHubGateway, record: Record) -> PullInfo:
    report = record.report(Ending(RunEvent.PUBLISH))
    return gateway.ensure_pull(
        head=record.branch or "",
        base=record.base_ref,
        title=pull_request_title(report),
        body=pull_request_body(report),
        draft=report.draft,
    )


def _check(gateway: GitHubGateway, run: Run, record: Record, text: str) -> None:
    """Put our own result on the head, where branch protection and reviewers look."""
    report = record.report(Ending(RunEvent.PUBLISH))
    view = StatusView(
        run_id=run.id,
        state=report.outcome,
        asked_by=run.asked_by,
        model=report.model,
        seconds_by_phase=report.seconds_by_phase,
        brief_sha256=report.brief_sha256,
        run_url=report.run_url,
        report=report,
    )
    check_pushed(gateway, view, record.head_sha or "", text)


def _rejection(rejected: PushRejected) -> str:
    return f"the push was not taken ({rejected.trouble}): {rejected.detail}"
