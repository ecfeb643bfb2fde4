"""Accounts that take turns, the sizes of stored audits, and the time of failed work.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "account_turns",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "source", name=op.f("pk_account_turns")),
        _account("account_turns"),
    )
    op.create_table(
        "failed_work",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("account_id", "day", name=op.f("pk_failed_work")),
        _account("failed_work"),
    )
    for column in ("raw_bytes", "frame_bytes"):
        op.add_column("audits", sa.Column(column, sa.BigInteger(), nullable=True))


def _account(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["account_id"],
        ["accounts.id"],
        name=op.f(f"fk_{table}_account_id_accounts"),
        ondelete="CASCADE",
    )


def downgrade() -> None:
    for column in ("raw_bytes", "frame_bytes"):
        op.drop_column("audits", column)
    op.drop_table("failed_work")
    op.drop_table("account_turns")
