"""Deliveries know what they are about; runs what all their attempts used; one may succeed another.

A delivery of before has no subject, and is taken by itself.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ONE_ACTIVE = "uq_runs_one_active_per_issue"


def upgrade() -> None:
    with op.batch_alter_table("deliveries") as table:
        table.add_column(sa.Column("subject", sa.String(length=64), nullable=True))
    _index("ix_deliveries_waiting", "deliveries", ["subject", "received_at"], "state = 'received'")
    kept = "length(body) > 0 AND state <> 'received'"
    _index("ix_deliveries_with_body", "deliveries", ["touched_at"], kept)
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("model_calls", sa.Integer(), nullable=False, server_default="0"))
        table.add_column(
            sa.Column("usage_estimated", sa.Boolean(), nullable=False, server_default=sa.false())
        )
    _one_active("ended_at IS NULL AND cancel_requested_by IS NULL")


def downgrade() -> None:
    _one_active("ended_at IS NULL")
    with op.batch_alter_table("runs") as table:
        table.drop_column("usage_estimated")
        table.drop_column("model_calls")
    op.drop_index("ix_deliveries_with_body", "deliveries")
    op.drop_index("ix_deliveries_waiting", "deliveries")
    with op.batch_alter_table("deliveries") as table:
        table.drop_column("subject")


def _one_active(which: str) -> None:
    op.drop_index(_ONE_ACTIVE, "runs")
    _index(_ONE_ACTIVE, "runs", ["repo_id", "issue_number"], which, unique=True)


def _index(name: str, table: str, columns: list[str], which: str, *, unique: bool = False) -> None:
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        sqlite_where=sa.text(which),
        postgresql_where=sa.text(which),
    )
