"""How much of a plan's windows is used, as agents report it.

Revision ID: 0051
Revises: 0050
"""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "plan_limits",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("window_minutes", sa.Integer(), nullable=False),
        sa.Column("resets_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_percent", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_plan_limits_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "account_id",
            "provider",
            "environment",
            "window_minutes",
            "resets_at",
            name=op.f("pk_plan_limits"),
        ),
    )


def downgrade() -> None:
    op.drop_table("plan_limits")
