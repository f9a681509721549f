"""What GitHub knows of checks that failed: which, what they say of single lines, and their logs.

https://docs.github.com/en/rest/checks/runs
https://docs.github.com/en/rest/actions/workflow-jobs#download-job-logs-for-a-workflow-run
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

import requests
from github import GithubException
from github.CheckRun import CheckRun
from github.Commit import Commit

from app.github.auth import Scope
from app.github.convert import to_annotation, to_failed_check
from app.github.errors import GitHubError, GitHubUnavailable, Gone, NotAllowed, NotFound
from app.github.gateway import GitHubGateway
from app.github.transport import USER_AGENT, Api, StrictRequester
from app.github.values import AnnotationInfo, FailedCheck

MAX_CHECKS = 300
MAX_LOG_BYTES = 64 * 1024 * 1024
"""A longer log is not read to its end, where the reason of a failure stands."""
LOG_DEADLINE_S = 60.0

_FOUND = 302
_CHUNK = 64 * 1024


class NoLog(Exception):
    """There is no log to be had; the text says why, for a person or a model."""


def failed_checks(
    gateway: GitHubGateway, sha: str, but_not_app: int | None, conclusions: Iterable[str]
) -> tuple[FailedCheck, ...]:
    """Return the checks of a commit that stand as failed: of each name and app the newest run."""
    wanted = frozenset(conclusions)

    def look(talk: StrictRequester) -> tuple[FailedCheck, ...]:
        commit = Commit(talk, url=f"{gateway.path}/commits/{sha}")
        found = islice(commit.get_check_runs(filter="latest"), MAX_CHECKS)
        return tuple(
            to_failed_check(check)
            for check in found
            if check.conclusion in wanted and _app_id(check) != but_not_app
        )

    return gateway.ask(look)


def _app_id(check: CheckRun) -> int | None:
    """An App that was deleted leaves its checks behind, and GitHub names none for them."""
    return check.app.id if check.app is not None else None


def annotations_of(gateway: GitHubGateway, check_id: int, most: int) -> tuple[AnnotationInfo, ...]:
    """Return the first so many annotations of a check run."""

    def look(talk: StrictRequester) -> tuple[AnnotationInfo, ...]:
        check = CheckRun(talk, url=f"{gateway.path}/check-runs/{check_id}")
        return tuple(map(to_annotation, islice(check.get_annotations(), most)))

    return gateway.ask(look)


def job_log_tail(gateway: GitHubGateway, job_id: int, most: int) -> bytes:
    """Return the last so many bytes of the log of a job of GitHub Actions.

    NoLog when the installation has not granted `actions: read`, when GitHub has no log (any more),
    or when it cannot be had: nothing here is worth failing for.
    """
    path = f"{gateway.path}/actions/jobs/{job_id}/logs"
    try:
        address = gateway.ask(lambda talk: _address(talk, path), Scope.ACTIONS_LOGS)
    except NotAllowed:
        raise NoLog("the App may not read them (Actions: read was not granted)") from None
    except (NotFound, Gone):
        raise NoLog("GitHub has none for this job, or not any more") from None
    except GitHubError as error:
        raise NoLog(f"GitHub did not give it ({error})") from error
    return _download(gateway.api, address, most)


def _address(talk: StrictRequester, path: str) -> str:
    """Return where the log lies: an address that is good for a minute, and needs no token."""
    try:
        talk.requestJsonAndCheck("GET", path)
    except GithubException as error:
        address = (error.headers or {}).get("location")
        if error.status != _FOUND or not address:
            raise
        return address
    raise GitHubUnavailable("GitHub did not say where the log is")


def _download(api: Api, address: str, most: int) -> bytes:
    """Read to the end and keep the tail. The address is of a store that our token is not for."""
    if api.url.startswith("https:") and not address.startswith("https:"):
        raise NoLog("its store has no TLS")
    deadline, tail, size = time.monotonic() + LOG_DEADLINE_S, b"", 0
    verify = str(api.ca_bundle) if api.ca_bundle is not None else True
    try:
        with requests.get(
            address,
            headers={"User-Agent": USER_AGENT},
            timeout=api.timeout_s,
            stream=True,
            allow_redirects=False,
            verify=verify,
        ) as answer:
            if answer.status_code != requests.codes.ok:
                raise NoLog(f"its store answered {answer.status_code}")
            for chunk in answer.iter_content(_CHUNK):
                tail, size = (tail + chunk)[-most:], size + len(chunk)
                if size > MAX_LOG_BYTES or time.monotonic() > deadline:
                    raise NoLog("it is too long to be read to its end")
    except requests.RequestException as error:
        # The text of these quotes the address, which is a secret for a minute.
        raise NoLog(f"its store could not be reached ({type(error).__name__})") from None
    return tail
