"""Check runs and check suites. Writing them is for Apps alone."""

from __future__ import annotations

from typing import Any

from demo.github.acts import checks as acts
from demo.github.clock import seconds_from
from demo.github.errors import ApiError, invalid_request
from demo.github.records import App, CheckRun
from demo.github.rest.call import Call
from demo.github.rest.paging import counted, page
from demo.github.rest.routing import created, route
from demo.github.shapes import checks as shapes

_RUN = "/repos/{owner}/{repo}/check-runs/{check_run_id}"
_STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
_CONCLUSIONS = (
    "action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale",
    "timed_out",
)  # fmt: skip


def _app(call: Call) -> App:
    if call.via_app is None:
        raise ApiError(403, "You must authenticate via a GitHub App.")
    return call.via_app


def _report(call: Call) -> acts.Report:
    return acts.Report(
        name=call.text_or_none("name"),
        status=call.choice("status", _STATUSES),
        conclusion=call.choice("conclusion", _CONCLUSIONS),
        started_at=_time(call, "started_at"),
        completed_at=_time(call, "completed_at"),
        details_url=call.text_or_none("details_url"),
        external_id=call.text_or_none("external_id"),
        output=_object(call, "output"),
        actions=_actions(call),
    )


def _time(call: Call, name: str) -> float | None:
    text = call.text_or_none(name)
    try:
        return None if text is None else seconds_from(text)
    except ValueError:
        raise invalid_request(
            f"For 'properties/{name}', {text} is not a valid date-time."
        ) from None


def _object(call: Call, name: str) -> dict[str, Any] | None:
    value = call.body.get(name)
    if value is not None and not isinstance(value, dict):
        raise invalid_request(f"For 'properties/{name}', the value is not an object.")
    return value


def _actions(call: Call) -> list[dict[str, str]] | None:
    value = call.body.get("actions")
    if value is not None and not isinstance(value, list):
        raise invalid_request("For 'properties/actions', the value is not an array.")
    return value


@route("POST", "/repos/{owner}/{repo}/check-runs", "checks:write")
def create_run(call: Call) -> Any:
    app = _app(call)
    call.text("name")
    run = acts.create_run(call.repo, app, call.text("head_sha"), _report(call))
    return created(shapes.run(call.view, run))


@route("GET", _RUN, "checks:read")
def get_run(call: Call) -> Any:
    return shapes.run(call.view, call.pick(call.repo.check_runs, "check_run_id"))


@route("PATCH", _RUN, "checks:write")
def update_run(call: Call) -> Any:
    run: CheckRun = call.pick(call.repo.check_runs, "check_run_id")
    acts.update_run(run, _app(call), _report(call))
    return shapes.run(call.view, run)


@route("GET", _RUN + "/annotations", "checks:read")
def list_annotations(call: Call) -> Any:
    run: CheckRun = call.pick(call.repo.check_runs, "check_run_id")
    return page(call, run.annotations, lambda one: shapes.annotation(call.view, run, one))


@route("GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs", "checks:read")
def list_runs_for_ref(call: Call) -> Any:
    sha = commit_named(call)
    found = [run for run in call.repo.check_runs if run.head_sha == sha and _wanted(call, run)]
    newest = found if call.query("filter") == "all" else _latest(found)
    return counted(call, newest[::-1], lambda one: shapes.run(call.view, one), "check_runs")


def _wanted(call: Call, run: CheckRun) -> bool:
    name = call.query("check_name", run.name)
    status = call.query("status", run.status)
    app_id = call.query("app_id", str(run.app.id))
    return (name, status, app_id) == (run.name, run.status, str(run.app.id))


def _latest(runs: list[CheckRun]) -> list[CheckRun]:
    """Keep the newest run of each name and App."""
    return list({(run.app.id, run.name): run for run in runs}.values())


def commit_named(call: Call) -> str:
    """Return the commit of the `ref` in the path. ApiError 422 when there is none."""
    sha = call.repo.git.commit_sha(call.args["ref"])
    if sha is None:
        raise ApiError(422, f"No commit found for SHA: {call.args['ref']}")
    return sha


@route("GET", "/repos/{owner}/{repo}/commits/{ref}/check-suites", "checks:read")
def list_suites_for_ref(call: Call) -> Any:
    sha = commit_named(call)
    found = [suite for suite in call.repo.check_suites if suite.head_sha == sha]
    return counted(call, found, lambda one: shapes.suite(call.view, one), "check_suites")


@route("GET", "/repos/{owner}/{repo}/check-suites/{check_suite_id}", "checks:read")
def get_suite(call: Call) -> Any:
    return shapes.suite(call.view, call.pick(call.repo.check_suites, "check_suite_id"))


@route("GET", "/repos/{owner}/{repo}/check-suites/{check_suite_id}/check-runs", "checks:read")
def list_runs_of_suite(call: Call) -> Any:
    suite = call.pick(call.repo.check_suites, "check_suite_id")
    runs = shapes.runs_of(suite)
    return counted(call, runs, lambda one: shapes.run(call.view, one), "check_runs")
