"""Runs know whether their ending was told. Those that had ended before count as told."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("told_at", sa.DateTime(timezone=True), nullable=True))
        table.add_column(sa.Column("tell_at", sa.DateTime(timezone=True), nullable=True))
        table.add_column(sa.Column("tell_tries", sa.Integer(), nullable=False, server_default="0"))
        table.create_index("ix_runs_tell_at", ["tell_at"], unique=False)
    op.execute("UPDATE runs SET told_at = ended_at WHERE ended_at IS NOT NULL")


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.drop_index("ix_runs_tell_at")
        table.drop_column("tell_tries")
        table.drop_column("tell_at")
        table.drop_column("told_at")
