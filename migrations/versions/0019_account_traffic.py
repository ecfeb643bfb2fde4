"""The calls of an account by hour of day and latency.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account_traffic",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("hours", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("latencies", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("first_call", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_call", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_account_traffic_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_traffic")),
    )
    op.create_index(
        op.f("ix_account_traffic_account_id"), "account_traffic", ["account_id"], unique=False
    )


def downgrade() -> None:
    op.drop_table("account_traffic")
