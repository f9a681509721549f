"""The tables: deliveries, runs, attempts, the log of each run, and the workers.

These classes stay inside `app.store`; what leaves it are the frozen values of `values.py`.
`migrations/` is what creates the tables, and a test holds the two together.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.states import ENDED, FailureKind, RunState
from app.store.types import UtcDateTime, text_enum
from app.store.values import DeliveryState, TargetKind

KEPT_BODY = "length(body) > 0 AND state <> 'received'"
"""Which deliveries are done with and have their body still: an index has only those."""

_ENDED_STATES = ", ".join(f"'{state}'" for state in sorted(ENDED))


class Base(DeclarativeBase):
    """Names every constraint, so that a migration can drop it by name on either database."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 -- SQLAlchemy reads it from the class
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[dict[str, Any]]: JSON,
        dict[str, float]: JSON,
    }


class DeliveryRow(Base):
    """A webhook as it came. `body` is the raw bytes whose signature was verified."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index(None, "state", "touched_at"),
        # Small, since few wait: which one is next for an issue.
        Index(
            "ix_deliveries_waiting",
            "subject",
            "received_at",
            sqlite_where=text("state = 'received'"),
            postgresql_where=text("state = 'received'"),
        ),
        # Those whose body is still to be forgotten, however many have been.
        Index(
            "ix_deliveries_with_body",
            "touched_at",
            sqlite_where=text(KEPT_BODY),
            postgresql_where=text(KEPT_BODY),
        ),
    )

    delivery_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    event: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str | None] = mapped_column(String(64))
    body: Mapped[bytes] = mapped_column(LargeBinary)
    received_at: Mapped[datetime]
    # When it was received or last tried: what `stale` goes by.
    touched_at: Mapped[datetime]
    state: Mapped[DeliveryState] = mapped_column(text_enum(DeliveryState))
    reason: Mapped[str] = mapped_column(Text, default="")
    attempts: Mapped[int] = mapped_column(default=0)
    enqueue_failures: Mapped[int] = mapped_column(default=0)
    processed_at: Mapped[datetime | None]


class RunRow(Base):
    """One run: the truth about it, whatever a queue or a process believes."""

    __tablename__ = "runs"
    __table_args__ = (
        # At most one active run per issue or pull request (they share one number space); one that
        # was told to stop lets a successor queue behind it.
        Index(
            "uq_runs_one_active_per_issue",
            "repo_id",
            "issue_number",
            unique=True,
            sqlite_where=text("ended_at IS NULL AND cancel_requested_by IS NULL"),
            postgresql_where=text("ended_at IS NULL AND cancel_requested_by IS NULL"),
        ),
        # A delivery that is processed twice cannot start a second run for the same command.
        UniqueConstraint("trigger_delivery_id", "trigger_index"),
        # Without this, a forgotten `ended_at` would block the issue for ever.
        CheckConstraint(
            f"(ended_at IS NOT NULL) = (state IN ({_ENDED_STATES}))", name="ended_at_follows_state"
        ),
        Index(None, "state", "created_at"),
        Index(None, "repo_id", "pull_number"),
        Index(None, "created_at"),
        Index(None, "tell_at"),
    )

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    repo_id: Mapped[int] = mapped_column(BigInteger)
    repo: Mapped[str] = mapped_column(String(255))
    installation_id: Mapped[int] = mapped_column(BigInteger)
    issue_number: Mapped[int]
    issue_title: Mapped[str] = mapped_column(Text)
    target: Mapped[TargetKind] = mapped_column(text_enum(TargetKind))
    asked_by: Mapped[str] = mapped_column(String(255))
    asked_by_id: Mapped[int] = mapped_column(BigInteger)
    instruction: Mapped[str] = mapped_column(Text, default="")
    trigger_delivery_id: Mapped[str | None] = mapped_column(String(128))
    trigger_index: Mapped[int] = mapped_column(default=0)
    trigger_comment_id: Mapped[int | None] = mapped_column(BigInteger)

    state: Mapped[RunState] = mapped_column(text_enum(RunState))
    failure_kind: Mapped[FailureKind | None] = mapped_column(text_enum(FailureKind))
    detail: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    state_since: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]

    attempt: Mapped[int] = mapped_column(default=0)
    lost_leases: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None] = mapped_column(String(255))
    lease_until: Mapped[datetime | None]
    cancel_requested_by: Mapped[str | None] = mapped_column(String(255))
    away: Mapped[bool] = mapped_column(default=False, server_default=false())

    # When the ending was told on GitHub, and when to try (again); neither while the run is active.
    told_at: Mapped[datetime | None]
    tell_at: Mapped[datetime | None]
    tell_tries: Mapped[int] = mapped_column(default=0)
    # The place in the queue that the status comment names; None while it names none.
    told_place: Mapped[int | None]

    base_ref: Mapped[str | None] = mapped_column(Text)
    base_sha: Mapped[str | None] = mapped_column(String(64))
    branch: Mapped[str | None] = mapped_column(Text)
    head_sha: Mapped[str | None] = mapped_column(String(64))
    pull_number: Mapped[int | None]
    pull_url: Mapped[str | None] = mapped_column(Text)
    remarks: Mapped[list[dict[str, Any]]]
    undoes: Mapped[str | None] = mapped_column(String(26))
    status_comment_id: Mapped[int | None] = mapped_column(BigInteger)
    check_run_id: Mapped[int | None] = mapped_column(BigInteger)

    model: Mapped[str | None] = mapped_column(Text)
    brief_text: Mapped[str | None] = mapped_column(Text)
    brief_sha256: Mapped[str | None] = mapped_column(String(64))
    manifest_sha256: Mapped[str | None] = mapped_column(String(64))
    template_digest: Mapped[str | None] = mapped_column(String(128))
    tier: Mapped[str | None] = mapped_column(String(64))
    input_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    output_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    cost_usd: Mapped[float | None]
    model_calls: Mapped[int] = mapped_column(default=0)
    usage_estimated: Mapped[bool] = mapped_column(default=False)
    refusals: Mapped[int] = mapped_column(default=0)
    test_exit_code: Mapped[int | None]
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    seconds_by_phase: Mapped[dict[str, float]]


class AttemptRow(Base):
    """One machine in a run. `receipt` is what the provider said it started."""

    __tablename__ = "attempts"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    machine_id: Mapped[str] = mapped_column(String(128), index=True)
    provider: Mapped[str] = mapped_column(String(64))
    receipt: Mapped[dict[str, Any]]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None] = mapped_column(Text)


class LogRow(Base):
    """One line of a run's log; `seq` counts from 1 within the run."""

    __tablename__ = "run_log"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    kind: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)


class WorkerRow(Base):
    """A worker as it last reported. `problem` is why its provider cannot start machines, or ""."""

    __tablename__ = "workers"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    provider: Mapped[str] = mapped_column(String(64))
    problem: Mapped[str] = mapped_column(Text, default="")
    seen_at: Mapped[datetime]
