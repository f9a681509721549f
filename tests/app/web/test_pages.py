from __future__ import annotations

import threading
from typing import Any

import pytest
import structlog
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from app.states import FailureKind, RunEvent, RunState
from app.store import NewRun, Run, attempts, runs, workers, writing
from app.web.health import ProbeRunner
from app.web.logs import configure_logging
from tests.app.web.conftest import T0, Web

NASTY = '<script>alert("x")</script>'


def _run(web: Web, issue: int = 1, **changes: Any) -> str:
    new = NewRun(
        **{
            "repo_id": 42,
            "repo": "octo/ship",
            "installation_id": 7,
            "issue_number": issue,
            "issue_title": f"Pump {NASTY}",
            "asked_by": "ada",
            "asked_by_id": 100,
            "brief_text": f"Do it {NASTY}",
            **changes,
        }
    )
    with writing(web.engine) as session:
        made = runs.create(session, new, web.now)
    assert isinstance(made, Run)
    return made.id


def _published(web: Web, issue: int = 1, pull_url: str = "https://h/octo/ship/pull/2") -> str:
    run_id = _run(web, issue)
    with writing(web.engine) as session:
        runs.claim(session, "w", 60, web.now, run_id)
        attempts.start(
            session, run_id, 1, machine_id="m-1", provider="gvisor", receipt={}, now=web.now
        )
        state = RunState.CHECKOUT
        while state is not RunState.PUBLISH:
            web.later(2)
            runs.transition(session, run_id, state, RunEvent.ADVANCE, web.now)
            found = runs.get(session, run_id)
            assert found is not None
            state = found.state
        runs.log(session, run_id, "note", f"pushed {NASTY}", web.now)
        runs.transition(
            session,
            run_id,
            state,
            RunEvent.PUBLISH,
            web.now,
            pull_number=2,
            pull_url=pull_url,
            cost_usd=0.0123,
            test_exit_code=0,
            report={"note": NASTY},
        )
    return run_id


# --- dashboard --------------------------------------------------------------------------------


def test_an_empty_dashboard_says_how_to_begin(web: Web) -> None:
    page = web.client.get("/")
    assert page.status_code == 200
    assert "No run yet" in page.get_data(as_text=True)


def test_the_dashboard_lists_runs_with_state_time_and_cost(web: Web) -> None:
    _published(web)
    waiting = _run(web, 2)
    page = web.client.get("/").get_data(as_text=True)
    assert "octo/ship#1" in page
    assert "published" in page
    assert "12.0 s" in page
    assert "$0.0123" in page
    assert f'href="/runs/{waiting}"' in page
    assert 'href="https://github.com/octo/ship/issues/2"' in page
    assert 'http-equiv="refresh"' in page


def test_a_run_has_its_page(web: Web) -> None:
    run_id = _published(web)
    page = web.client.get(f"/runs/{run_id}").get_data(as_text=True)
    for shown in ("exit status 0", "m-1", "queued → checkout", "Do it", "checkout", "2.0"):
        assert shown in page
    assert 'http-equiv="refresh"' not in page


def test_a_queued_run_tells_its_place(web: Web) -> None:
    _run(web, 1)
    web.later(1)
    page = web.client.get(f"/runs/{_run(web, 2)}").get_data(as_text=True)
    assert "place 2 in the queue" in page


def test_what_people_and_guests_wrote_is_escaped_everywhere(web: Web) -> None:
    run_id = _published(web)
    for path in ("/", f"/runs/{run_id}"):
        page = web.client.get(path).get_data(as_text=True)
        assert "<script" not in page
        assert "&lt;script&gt;" in page


def test_only_web_addresses_become_links(web: Web) -> None:
    run_id = _published(web, pull_url="javascript:alert(1)")
    for path in ("/", f"/runs/{run_id}"):
        assert "javascript:" not in web.client.get(path).get_data(as_text=True)


def test_an_unknown_run_is_not_found(web: Web) -> None:
    assert web.client.get("/runs/none").status_code == 404


def test_the_dashboard_is_closed_to_others(web: Web) -> None:
    run_id = _published(web)
    for path in ("/", f"/runs/{run_id}", "/runs/none"):
        answer = web.client.get(path, environ_overrides={"REMOTE_ADDR": "203.0.113.9"})
        assert answer.status_code == 403
        assert "octo" not in answer.get_data(as_text=True)
        proxied = web.client.get(path, headers={"X-Forwarded-For": "203.0.113.9"})
        assert proxied.status_code == 403


def test_a_token_opens_the_dashboard_from_anywhere(web: Web) -> None:
    web.build(dashboard_token=SecretStr("right"))
    elsewhere = {"REMOTE_ADDR": "203.0.113.9"}
    refused = web.client.get("/", environ_overrides=elsewhere)
    assert refused.status_code == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic ")
    for headers, auth in (({}, ("any", "right")), ({"Authorization": "Bearer right"}, None)):
        page = web.client.get("/", environ_overrides=elsewhere, headers=headers, auth=auth)
        assert page.status_code == 200
    wrong = web.client.get("/", headers={"Authorization": "Bearer wrong"})
    assert wrong.status_code == 401


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/nothing", "/static/drydock.css"])
def test_every_answer_has_the_security_headers(web: Web, path: str) -> None:
    headers = web.client.get(path).headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"


def test_the_style_is_served_and_is_all_that_a_page_loads(web: Web) -> None:
    page = web.client.get("/").get_data(as_text=True)
    assert '<link rel="stylesheet" href="/static/drydock.css">' in page
    assert page.count("<link") == 1
    assert "style=" not in page
    assert web.client.get("/static/drydock.css").mimetype == "text/css"


# --- health -----------------------------------------------------------------------------------


def test_a_process_that_answers_is_alive(web: Web) -> None:
    answer = web.client.get("/healthz")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_it_is_ready_when_everything_answers(web: Web) -> None:
    web.probes["redis"] = lambda: "answers"
    web.build()
    answer = web.client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json == {
        "status": "ready",
        "checks": {
            "database": {"ok": True, "detail": "sqlite"},
            "redis": {"ok": True, "detail": "answers"},
        },
    }


def test_it_is_not_ready_when_one_does_not_and_says_which(web: Web) -> None:
    def down() -> str:
        raise ConnectionError("refused\nat length")

    web.probes["redis"] = down
    web.build()
    answer = web.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["status"] == "not ready"
    assert answer.json["checks"]["redis"] == {"ok": False, "detail": "refused"}
    outside = web.client.get("/readyz", environ_overrides={"REMOTE_ADDR": "203.0.113.9"})
    assert outside.json is not None
    assert outside.json["checks"]["redis"] == {"ok": False}


def test_a_database_without_its_tables_is_not_ready(web: Web) -> None:
    with web.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'other'")
    answer = web.client.get("/readyz")
    assert answer.status_code == 503
    assert "schema" in answer.get_data(as_text=True)


def test_a_probe_that_hangs_is_given_up_and_not_started_twice() -> None:
    release, started = threading.Event(), []

    def hang() -> str:
        started.append(1)
        release.wait(30)
        return "late"

    runner = ProbeRunner({"slow": hang, "quick": lambda: "here"}, timeout_s=0.05)
    for _ in range(2):
        found = runner.run()
        assert (found["slow"].ok, found["quick"].detail) == (False, "here")
    assert started == [1]
    release.set()
    runner._under_way["slow"].done.wait(5)
    assert runner.run()["slow"].detail == "late"


# --- metrics ----------------------------------------------------------------------------------


def test_metrics_are_computed_from_the_database(web: Web) -> None:
    _published(web)
    failed = _run(web, 2)
    with writing(web.engine) as session:
        runs.transition(
            session,
            failed,
            RunState.QUEUED,
            RunEvent.FAIL,
            web.now,
            failure_kind=FailureKind.GITHUB,
            refusals=3,
        )
        workers.report(session, "w1", provider="gvisor", now=web.now)
        workers.report(session, "w2", provider="gvisor", now=web.now, problem="broken")
        workers.report(session, "w3", provider="gvisor", now=T0.replace(year=2025))
    answer = web.client.get("/metrics")
    assert answer.mimetype == "text/plain"
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.get_data(as_text=True))
        for sample in family.samples
    }
    assert samples["drydock_runs", "published"] == 1
    assert samples["drydock_runs", "failed"] == 1
    assert samples["drydock_runs", "agent"] == 0
    assert samples["drydock_refusals_total",] == 3
    assert samples["drydock_cost_usd_total",] == 0.0123
    assert samples["drydock_workers", "yes"] == 1
    assert samples["drydock_workers", "no"] == 1
    assert samples["drydock_webhooks_refused_total", "bad_signature"] == 0


def test_metrics_name_no_repository(web: Web) -> None:
    _published(web)
    assert "octo" not in web.client.get("/metrics").get_data(as_text=True)


# --- what goes wrong --------------------------------------------------------------------------


def test_an_error_of_our_own_is_answered_without_its_text(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("internal detail")

    monkeypatch.setattr("app.web.dashboard.render_template", fail)
    answer = web.client.get("/")
    assert answer.status_code == 500
    assert "internal detail" not in answer.get_data(as_text=True)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_in_the_log_shows_no_local_variables(
    log_format: str, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(secret_in_a_variable: str) -> None:
        raise RuntimeError(str(len(secret_in_a_variable)))

    configure_logging(log_format)
    try:
        fail("hunter" + "2")
    except RuntimeError as error:
        structlog.get_logger().error("it_failed", exc_info=error)
    shown = capfd.readouterr().err
    assert "it_failed" in shown
    assert "RuntimeError" in shown
    assert "hunter2" not in shown
