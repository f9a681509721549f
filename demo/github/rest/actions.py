"""Jobs of GitHub Actions, as far as their logs go. A job has the id of its check run."""

from __future__ import annotations

from typing import Any

from demo.github.errors import ApiError, not_found
from demo.github.joblogs import address_of
from demo.github.records import CheckRun
from demo.github.rest.call import Call
from demo.github.rest.routing import Answer, route

ACTIONS = "github-actions"


@route("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs", "actions:read", public=False)
def get_job_logs(call: Call) -> Any:
    """Send the caller to the log: 404 for what is no job or still runs, 410 for a log of old."""
    run: CheckRun = call.pick(call.repo.check_runs, "job_id")
    if run.app.slug != ACTIONS or run.status != "completed":
        raise not_found()
    if run.log is None:
        raise ApiError(410, "The logs for this job have expired and are no longer available.")
    return Answer(302, b"", {"Location": address_of(call.world, run.log)})
