"""Runs know the inline comments that they answer, and whose push they take back."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.add_column(sa.Column("remarks", sa.JSON(), nullable=False, server_default="[]"))
        table.add_column(sa.Column("undoes", sa.String(length=26), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("runs") as table:
        table.drop_column("undoes")
        table.drop_column("remarks")
