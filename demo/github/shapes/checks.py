"""Check runs and check suites in JSON."""

from __future__ import annotations

from demo.github.clock import stamp, stamp_or_none
from demo.github.records import CheckRun, CheckSuite, Pull, Repo
from demo.github.shapes import apps, gitdata, pulls, repos
from demo.github.shapes.view import Json, View, node_id


def run(view: View, record: CheckRun) -> Json:
    """Return GitHub's `check-run`."""
    api = view.repo_api(record.repo, f"/check-runs/{record.id}")
    html = view.repo_web(record.repo, f"/runs/{record.id}")
    return {
        "id": record.id,
        "name": record.name,
        "node_id": node_id("CR", record.id),
        "head_sha": record.head_sha,
        "external_id": record.external_id,
        "url": api,
        "html_url": html,
        "details_url": record.details_url or record.app.external_url,
        "status": record.status,
        "conclusion": record.conclusion,
        "started_at": stamp_or_none(record.started_at),
        "completed_at": stamp_or_none(record.completed_at),
        "output": {
            "title": record.title,
            "summary": record.summary,
            "text": record.text,
            "annotations_count": len(record.annotations),
            "annotations_url": f"{api}/annotations",
        },
        "check_suite": {"id": record.suite.id},
        "app": apps.app(view, record.app),
        "pull_requests": _pulls(view, record.repo, record.head_sha),
    }


def annotation(view: View, record: CheckRun, entry: Json) -> Json:
    optional = ("start_column", "end_column", "title", "raw_details")
    path = entry["path"]
    return {
        **entry,
        **{key: entry.get(key) for key in optional},
        "blob_href": view.repo_web(record.repo, f"/blob/{record.head_sha}/{path}"),
    }


def runs_of(suite: CheckSuite) -> list[CheckRun]:
    return [record for record in suite.repo.check_runs if record.suite is suite]


def suite_state(suite: CheckSuite) -> tuple[str, str | None]:
    """Return a suite's status and conclusion: those of its runs together."""
    runs = runs_of(suite)
    if not runs:
        return "queued", None
    if any(record.status != "completed" for record in runs):
        return "in_progress", None
    conclusions = {record.conclusion for record in runs}
    worst = ("failure", "timed_out", "cancelled", "action_required", "success", "neutral")
    return "completed", next((one for one in worst if one in conclusions), "neutral")


def suite(view: View, record: CheckSuite) -> Json:
    """Return GitHub's `check-suite`."""
    return {
        **hook_suite(view, record),
        "repository": repos.repository(view, record.repo),
    }


def hook_suite(view: View, record: CheckSuite) -> Json:
    """Return the check suite as webhooks have it."""
    api = view.repo_api(record.repo, f"/check-suites/{record.id}")
    status, conclusion = suite_state(record)
    commit = record.repo.git.commit(record.head_sha)
    return {
        "id": record.id,
        "node_id": node_id("CS", record.id),
        "head_branch": record.head_branch,
        "head_sha": record.head_sha,
        "status": status,
        "conclusion": conclusion,
        "url": api,
        "before": commit.parents[0] if commit.parents else "0" * 40,
        "after": record.head_sha,
        "pull_requests": _pulls(view, record.repo, record.head_sha),
        "app": apps.app(view, record.app),
        "created_at": stamp(record.created_at),
        "updated_at": stamp(record.updated_at),
        "rerequestable": True,
        "runs_rerequestable": True,
        "latest_check_runs_count": len(runs_of(record)),
        "check_runs_url": f"{api}/check-runs",
        "head_commit": gitdata.simple_commit(commit),
    }


def hook_run(view: View, record: CheckRun) -> Json:
    """Return the check run as webhooks have it: with its suite."""
    shape = {**run(view, record), "check_suite": hook_suite(view, record.suite)}
    if record.actions:
        shape["actions"] = record.actions
    return shape


def _pulls(view: View, repo: Repo, sha: str) -> list[Json]:
    return [pulls.minimal(view, pull) for pull in repo.pulls if _open_on(pull, sha)]


def _open_on(pull: Pull, sha: str) -> bool:
    return pull.state == "open" and pull.head_sha == sha and pull.head_repo is pull.repo
