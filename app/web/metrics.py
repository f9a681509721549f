"""`/metrics` in Prometheus's format.

Computed from the database when it is asked for, so every process gives the same answer and none is
lost with a process. No label names a repository or a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from flask import Blueprint, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.orm import Session

from app.store import deliveries, reading, runs, workers
from app.web.deps import Deps

WORKER_ALIVE_S = 60.0
"""A worker that has not reported for so long counts as gone."""


def metrics(deps: Deps) -> Blueprint:
    """Return the blueprint of the page."""
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def page() -> Response:
        registry = CollectorRegistry(auto_describe=False)
        with reading(deps.engine) as session:
            registry.register(_Collected([*_from_database(session, deps), _refused(deps)]))
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    return blueprint


class _Collected(Collector):
    def __init__(self, found: list[Metric]) -> None:
        self._found = found

    def collect(self) -> Iterable[Metric]:
        return self._found


def _from_database(session: Session, deps: Deps) -> Iterable[Metric]:
    yield _by_label(
        "drydock_deliveries", "Deliveries by state.", deliveries.counts(session).items()
    )
    yield _by_label("drydock_runs", "Runs by state.", runs.counts(session).items())
    yield _oldest_waiting(session, deps)
    yield _workers(session, deps)
    failures = deliveries.enqueue_failures(session)
    yield _counter("drydock_enqueue_failures", "Times the queue could not be told.", failures)
    totals = runs.totals(session)
    for name, text in _TOTALS.items():
        yield _counter(f"drydock_{name}", text, totals[name])


_TOTALS = {
    "input_tokens": "Tokens sent to models.",
    "output_tokens": "Tokens received from models.",
    "cost_usd": "What models cost, in US dollars.",
    "refusals": "Requests out of machines that were refused.",
    "lost_leases": "Workers that vanished over a run.",
}


def _oldest_waiting(session: Session, deps: Deps) -> Metric:
    since = deliveries.oldest_waiting(session)
    age = (deps.clock() - since).total_seconds() if since is not None else 0.0
    return GaugeMetricFamily(
        "drydock_oldest_waiting_delivery_seconds",
        "Age of the oldest delivery that nobody has processed; 0 when there is none.",
        value=max(0.0, age),
    )


def _workers(session: Session, deps: Deps) -> Metric:
    alive = workers.seen_since(session, deps.clock() - timedelta(seconds=WORKER_ALIVE_S))
    family = GaugeMetricFamily(
        "drydock_workers", "Workers that live, by whether they can start machines.", labels=["able"]
    )
    family.add_metric(["yes"], sum(not worker.problem for worker in alive))
    family.add_metric(["no"], sum(bool(worker.problem) for worker in alive))
    return family


def _refused(deps: Deps) -> Metric:
    family = CounterMetricFamily(
        "drydock_webhooks_refused", "Webhooks that were not taken.", labels=["reason"]
    )
    for reason, count in deps.refused.read().items():
        family.add_metric([reason], count)
    return family


def _by_label(name: str, text: str, counts: Iterable[tuple[str, int]]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["state"])
    for state, count in sorted(counts):
        family.add_metric([state], count)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
