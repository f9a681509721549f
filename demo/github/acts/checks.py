"""Check suites and check runs: reported by Apps, re-run and answered by people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.github.announce import announce
from demo.github.errors import ApiError, invalid_request
from demo.github.records import App, CheckRun, CheckSuite, Repo, User
from demo.github.shapes import checks as shapes
from demo.github.shapes.view import Json, View

MAX_ANNOTATIONS = 50
MAX_ACTIONS = 3
MAX_TEXT = 65_535
_ACTION_LIMITS = {"label": 20, "description": 40, "identifier": 20}


@dataclass(frozen=True)
class Report:
    """What an App says of a check run; None leaves a value as it is."""

    name: str | None = None
    status: str | None = None
    conclusion: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    details_url: str | None = None
    external_id: str | None = None
    output: Mapping[str, Any] | None = None
    actions: list[dict[str, str]] | None = field(default=None)
    log: bytes | None = field(default=None, repr=False)


def create_run(repo: Repo, app: App, head_sha: str, report: Report) -> CheckRun:
    """Report a check on a commit. ApiError 422 for an unknown commit or too much of something."""
    if repo.git.commit_sha(head_sha) != head_sha:
        raise ApiError(422, f"No commit found for SHA: {head_sha}")
    _check(report)
    world = repo.world
    with world.lock:
        suite = suite_of(repo, app, head_sha, None)
        run = CheckRun(
            id=world.next_id(),
            repo=repo,
            app=app,
            suite=suite,
            head_sha=head_sha,
            name=report.name or "",
            status="queued",
            started_at=world.now(),
        )
        repo.check_runs.append(run)
        _apply(run, report)
        _tell(run, "created", app.bot)
        if run.status == "completed":
            _tell_completed(run)
        return run


def update_run(run: CheckRun, app: App, report: Report) -> None:
    """Change a check run. ApiError 403 for another App's, 422 as for a new one."""
    if run.app is not app:
        raise ApiError(
            403,
            f"Invalid app_id `{app.id}` - check run can only be modified by the GitHub App "
            "that created it.",
        )
    _check(report)
    with run.repo.world.lock:
        was = run.status
        _apply(run, report)
        if run.status == "completed" and was != "completed":
            _tell_completed(run)


def suite_of(repo: Repo, app: App, sha: str, branch: str | None) -> CheckSuite:
    """Return the App's check suite on a commit, making it when it is the first time."""
    for suite in repo.check_suites:
        if suite.app is app and suite.head_sha == sha:
            return suite
    heads = repo.git.heads().items()
    named = branch or next((name for name, at in heads if at == sha), None)
    now = repo.world.now()
    suite = CheckSuite(
        id=repo.world.next_id(),
        repo=repo,
        app=app,
        head_sha=sha,
        head_branch=named,
        created_at=now,
        updated_at=now,
    )
    repo.check_suites.append(suite)
    return suite


def request_suites(repo: Repo, actor: User, branch: str, sha: str) -> None:
    """After a push: a suite for each App that may write checks, and `check_suite.requested`."""
    for app in tuple(repo.world.apps.values()):
        installation = repo.world.installation_on(app, repo)
        if installation is None or installation.permissions.get("checks") != "write":
            continue
        known = any(suite.app is app and suite.head_sha == sha for suite in repo.check_suites)
        if not known:
            suite = suite_of(repo, app, sha, branch)
            _tell_suite(suite, "requested", actor, only=app)


def rerun(run: CheckRun, actor: User) -> None:
    """A person pressed *Re-run*: only the App that made the check hears it."""
    _tell(run, "rerequested", actor, only=run.app)


def request_action(run: CheckRun, actor: User, identifier: str) -> None:
    """A person pressed one of the check run's buttons. KeyError when it has no such button."""
    if all(action["identifier"] != identifier for action in run.actions):
        raise KeyError(identifier)
    extra = {"requested_action": {"identifier": identifier}}
    _tell(run, "requested_action", actor, only=run.app, extra=extra)


def _apply(run: CheckRun, report: Report) -> None:
    now = run.repo.world.now()
    run.suite.updated_at = now
    for name in ("name", "status", "started_at", "details_url", "external_id", "actions", "log"):
        value = getattr(report, name)
        if value is not None:
            setattr(run, name, value)
    if report.conclusion is not None:
        run.status, run.conclusion = "completed", report.conclusion
        run.completed_at = report.completed_at or now
    elif report.status is not None:
        run.conclusion = run.completed_at = None
    if report.output is not None:
        _apply_output(run, report.output)


def _apply_output(run: CheckRun, output: Mapping[str, Any]) -> None:
    run.title = output.get("title", run.title)
    run.summary = output.get("summary", run.summary)
    run.text = output.get("text", run.text)
    run.annotations.extend(output.get("annotations", ()))


def _check(report: Report) -> None:
    if report.status == "completed" and report.conclusion is None:
        raise invalid_request('"conclusion" wasn\'t supplied.')
    if report.output is not None:
        _check_output(report.output)
    _check_actions(report.actions or [])


def _check_output(output: Mapping[str, Any]) -> None:
    _check_present(output, "title", "summary")
    for key in ("summary", "text"):
        if len(output.get(key) or "") > MAX_TEXT:
            raise invalid_request(
                f"Only {MAX_TEXT} characters are allowed; {len(output[key])} were supplied."
            )
    annotations = output.get("annotations") or []
    if len(annotations) > MAX_ANNOTATIONS:
        raise invalid_request(
            f"No more than {MAX_ANNOTATIONS} items are allowed; {len(annotations)} were supplied."
        )
    for entry in annotations:
        _check_present(entry, "path", "start_line", "end_line", "annotation_level", "message")


def _check_present(given: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        if given.get(key) is None:
            raise invalid_request(f'"{key}" wasn\'t supplied.')


def _check_actions(actions: list[dict[str, str]]) -> None:
    if len(actions) > MAX_ACTIONS:
        raise invalid_request(
            f"No more than {MAX_ACTIONS} items are allowed; {len(actions)} were supplied."
        )
    for action in actions:
        for key, limit in _ACTION_LIMITS.items():
            if not isinstance(action.get(key), str):
                raise invalid_request(f'"{key}" wasn\'t supplied.')
            if len(action[key]) > limit:
                raise invalid_request(
                    f"Only {limit} characters are allowed; {len(action[key])} were supplied."
                )


def _tell(
    run: CheckRun, action: str, actor: User, *, only: App | None = None, extra: Json | None = None
) -> None:
    def payload(view: View) -> Json:
        return {"action": action, "check_run": shapes.hook_run(view, run), **(extra or {})}

    announce(run.repo, "check_run", actor, payload, only=only)


def _tell_completed(run: CheckRun) -> None:
    _tell(run, "completed", run.app.bot)
    if shapes.suite_state(run.suite)[0] == "completed":
        _tell_suite(run.suite, "completed", run.app.bot)


def _tell_suite(suite: CheckSuite, action: str, actor: User, *, only: App | None = None) -> None:
    def payload(view: View) -> Json:
        return {"action": action, "check_suite": shapes.hook_suite(view, suite)}

    announce(suite.repo, "check_suite", actor, payload, only=only)
