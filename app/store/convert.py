"""Rows into values."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

from app.store.models import AttemptRow, Base, DeliveryRow, LogRow, RunRow, WorkerRow
from app.store.values import Attempt, Delivery, LogEntry, Run, Worker

_Value = TypeVar("_Value")


def to_run(row: RunRow) -> Run:
    return _copy(row, Run)


def to_delivery(row: DeliveryRow) -> Delivery:
    return _copy(row, Delivery)


def to_attempt(row: AttemptRow) -> Attempt:
    return _copy(row, Attempt)


def to_log_entry(row: LogRow) -> LogEntry:
    return _copy(row, LogEntry)


def to_worker(row: WorkerRow) -> Worker:
    return _copy(row, Worker)


def _copy(row: Base, kind: type[_Value]) -> _Value:
    """Copy by name: a value has the fields of its table, and a test holds them together."""
    values: dict[str, Any] = {
        field.name: getattr(row, field.name)
        for field in fields(kind)  # type: ignore[arg-type]
    }
    return kind(**values)
