"""Plans of an account, and the hour of calls that a plan includes.

Lines of the previous release have no hour, until the files of their calls are merged or priced
again.

Revision ID: 0049
Revises: 0048
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("plan_usage", sa.Column("hour", sa.SmallInteger(), nullable=True))
    op.create_table(
        "plans",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("price_usd", sa.Numeric(precision=14, scale=2), nullable=False),
        sa.Column("seats", sa.Integer(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.CheckConstraint("price_usd >= 0 AND seats > 0", name=op.f("ck_plans_amounts")),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_plans_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    op.create_index(op.f("ix_plans_account_id"), "plans", ["account_id"])


def downgrade() -> None:
    op.drop_table("plans")
    op.drop_column("plan_usage", "hour")
