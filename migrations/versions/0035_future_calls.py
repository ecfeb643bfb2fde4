"""Calls dated in the future: which were deleted, and when an account's next ones enter.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("account_calls", sa.Column("next_call_on", sa.Date(), nullable=True))
    op.create_table(
        "deleted_calls",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.Column("applied_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_deleted_calls_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deleted_calls")),
    )
    op.create_index("ix_deleted_calls_account_id", "deleted_calls", ["account_id"], unique=False)
    op.create_index("ix_deleted_calls_audit_id", "deleted_calls", ["audit_id"], unique=False)
    op.create_index(
        "ix_deleted_calls_pending",
        "deleted_calls",
        ["account_id"],
        unique=False,
        postgresql_where=sa.text("applied_at IS NULL"),
    )


def downgrade() -> None:
    op.drop_table("deleted_calls")
    op.drop_column("account_calls", "next_call_on")
