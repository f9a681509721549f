"""`/healthz` (this process answers) and `/readyz` (what it depends on answers too)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from flask import Blueprint, Response, jsonify
from sqlalchemy import Engine

from app.store import is_current
from app.web.deps import Deps, Probe
from app.web.viewer import may_view

PROBE_TIMEOUT_S = 3.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Finding:
    """What one probe found; `detail` is the reason when it is not ok."""

    ok: bool
    detail: str


def health(deps: Deps) -> Blueprint:
    """Return the blueprint of both pages."""
    blueprint = Blueprint("health", __name__)
    probes = {"database": lambda: probe_database(deps.engine), **deps.probes}
    runner = ProbeRunner(probes)

    @blueprint.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @blueprint.get("/readyz")
    def readyz() -> Response:
        findings = runner.run()
        ready = all(finding.ok for finding in findings.values())
        shown = {name: _shown(found, may_view(deps)) for name, found in findings.items()}
        response = jsonify(status="ready" if ready else "not ready", checks=shown)
        response.status_code = 200 if ready else 503
        return response

    return blueprint


def probe_database(engine: Engine) -> str:
    """Ask the database for its schema. RuntimeError when it is not the one this code expects."""
    with engine.connect() as connection:
        if not is_current(connection):
            raise RuntimeError("the schema is not the one that this version expects")
        return connection.dialect.name


class ProbeRunner:
    """Runs probes side by side, each for PROBE_TIMEOUT_S at most.

    One that hangs is not started again before it ends, so that threads do not pile up.
    """

    def __init__(self, probes: Mapping[str, Probe], timeout_s: float = PROBE_TIMEOUT_S) -> None:
        self._probes = probes
        self._timeout_s = timeout_s
        self._under_way: dict[str, _Asking] = {}
        self._lock = threading.Lock()

    def run(self) -> Mapping[str, Finding]:
        """Return what each probe found, by name."""
        asking = {name: self._start(name) for name in self._probes}
        return {name: self._result(name, each) for name, each in asking.items()}

    def _start(self, name: str) -> _Asking:
        with self._lock:
            if name not in self._under_way:
                self._under_way[name] = _Asking(self._probes[name])
            return self._under_way[name]

    def _result(self, name: str, asking: _Asking) -> Finding:
        if not asking.done.wait(self._timeout_s):
            return Finding(ok=False, detail=f"no answer within {self._timeout_s:g} s")
        with self._lock:
            if self._under_way.get(name) is asking:
                del self._under_way[name]
        if not asking.finding.ok:
            _log.warning("probe_failed", probe=name, reason=asking.finding.detail)
        return asking.finding


class _Asking:
    """One probe in its own thread."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.done = threading.Event()
        self.finding = Finding(ok=False, detail="no answer")
        threading.Thread(target=self._run, name="probe", daemon=True).start()

    def _run(self) -> None:
        try:
            self.finding = Finding(ok=True, detail=self._probe())
        except Exception as error:  # noqa: BLE001 -- any failure is the finding
            lines = str(error).splitlines()
            self.finding = Finding(ok=False, detail=lines[0] if lines else type(error).__name__)
        finally:
            self.done.set()


def _shown(finding: Finding, in_full: bool) -> Mapping[str, object]:
    return {"ok": finding.ok, "detail": finding.detail} if in_full else {"ok": finding.ok}
