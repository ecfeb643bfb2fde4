"""What coding agents count of themselves, and the values that may be sent again.

Revision ID: 0052
Revises: 0051
"""

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_totals",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False),
        sa.Column("estimated_usd", sa.Numeric(30, 12), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_agent_totals_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "account_id", "agent", "day", "model", name=op.f("pk_agent_totals")
        ),
    )
    op.create_table(
        "agent_points",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("series", sa.LargeBinary(), nullable=False),
        sa.Column("begun_ns", sa.BigInteger(), nullable=False),
        sa.Column("slot_ns", sa.BigInteger(), nullable=False),
        sa.Column("amount", sa.Numeric(30, 12), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_agent_points_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "account_id", "series", "begun_ns", "slot_ns", name=op.f("pk_agent_points")
        ),
    )
    op.create_index("ix_agent_points_slot_ns", "agent_points", ["slot_ns"])


def downgrade() -> None:
    op.drop_table("agent_points")
    op.drop_table("agent_totals")
