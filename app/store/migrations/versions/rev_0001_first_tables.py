"""The first tables: deliveries, runs, attempts, run_log, workers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_deliveries()
    _create_runs()
    _create_attempts()
    _create_run_log()
    _create_workers()


def downgrade() -> None:
    op.drop_table("workers")
    op.drop_table("run_log")
    op.drop_table("attempts")
    op.drop_table("runs")
    op.drop_table("deliveries")


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("delivery_id", sa.String(length=128), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("touched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("enqueue_failures", sa.Integer(), nullable=False),
        sa.Column("processed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("delivery_id", name="pk_deliveries"),
    )
    op.create_index(
        "ix_deliveries_state_touched_at", "deliveries", ["state", "touched_at"], unique=False
    )


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=26), nullable=False),
        sa.Column("repo_id", sa.BigInteger(), nullable=False),
        sa.Column("repo", sa.String(length=255), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("issue_number", sa.Integer(), nullable=False),
        sa.Column("issue_title", sa.Text(), nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("asked_by", sa.String(length=255), nullable=False),
        sa.Column("asked_by_id", sa.BigInteger(), nullable=False),
        sa.Column("instruction", sa.Text(), nullable=False),
        sa.Column("trigger_delivery_id", sa.String(length=128), nullable=True),
        sa.Column("trigger_index", sa.Integer(), nullable=False),
        sa.Column("trigger_comment_id", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("failure_kind", sa.String(length=32), nullable=True),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state_since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lost_leases", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(length=255), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_by", sa.String(length=255), nullable=True),
        sa.Column("base_ref", sa.Text(), nullable=True),
        sa.Column("base_sha", sa.String(length=64), nullable=True),
        sa.Column("branch", sa.Text(), nullable=True),
        sa.Column("head_sha", sa.String(length=64), nullable=True),
        sa.Column("pull_number", sa.Integer(), nullable=True),
        sa.Column("pull_url", sa.Text(), nullable=True),
        sa.Column("status_comment_id", sa.BigInteger(), nullable=True),
        sa.Column("check_run_id", sa.BigInteger(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("brief_text", sa.Text(), nullable=True),
        sa.Column("brief_sha256", sa.String(length=64), nullable=True),
        sa.Column("manifest_sha256", sa.String(length=64), nullable=True),
        sa.Column("template_digest", sa.String(length=128), nullable=True),
        sa.Column("tier", sa.String(length=64), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Double(), nullable=True),
        sa.Column("refusals", sa.Integer(), nullable=False),
        sa.Column("test_exit_code", sa.Integer(), nullable=True),
        sa.Column("report", sa.JSON(), nullable=True),
        sa.Column("seconds_by_phase", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (state IN ('cancelled', 'failed', 'no_changes', "
            "'published', 'refused', 'timed_out'))",
            name=op.f("ck_runs_ended_at_follows_state"),
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint(
            "trigger_delivery_id",
            "trigger_index",
            name="uq_runs_trigger_delivery_id_trigger_index",
        ),
    )
    op.create_index("ix_runs_created_at", "runs", ["created_at"], unique=False)
    op.create_index("ix_runs_repo_id_pull_number", "runs", ["repo_id", "pull_number"], unique=False)
    op.create_index("ix_runs_state_created_at", "runs", ["state", "created_at"], unique=False)
    op.create_index(
        "uq_runs_one_active_per_issue",
        "runs",
        ["repo_id", "issue_number"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )


def _create_attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("machine_id", sa.String(length=128), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("receipt", sa.JSON(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_attempts_run_id_runs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )
    op.create_index("ix_attempts_machine_id", "attempts", ["machine_id"], unique=False)


def _create_run_log() -> None:
    op.create_table(
        "run_log",
        sa.Column("run_id", sa.String(length=26), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_run_log_run_id_runs", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "seq", name="pk_run_log"),
    )


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("provider", sa.String(length=64), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_workers"),
    )
