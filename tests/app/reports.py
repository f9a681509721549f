"""A report with what every report has, for tests to add to."""

from __future__ import annotations

from app.report import RunReport
from app.states import RunState

REPORT = RunReport(
    run_id="01abc",
    outcome=RunState.PUBLISHED,
    repo="acme/ship",
    issue_number=7,
    issue_title="It leaks",
    asked_by="alice",
    model="openai/gpt-x",
    base_ref="main",
    base_sha="b" * 40,
)
