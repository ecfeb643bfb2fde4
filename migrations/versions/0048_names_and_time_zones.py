"""The name of an account on its reports, its time zone, and marks on its charts.

Revision ID: 0048
Revises: 0047
"""

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("name", sa.String(), nullable=False, server_default=""))
    op.add_column("accounts", sa.Column("time_zone", sa.String(), nullable=True))
    op.create_table(
        "chart_marks",
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("words", sa.String(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_chart_marks_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chart_marks")),
    )
    op.create_index(op.f("ix_chart_marks_account_id"), "chart_marks", ["account_id"])


def downgrade() -> None:
    op.drop_table("chart_marks")
    op.drop_column("accounts", "time_zone")
    op.drop_column("accounts", "name")
