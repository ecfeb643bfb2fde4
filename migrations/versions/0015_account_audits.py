"""Audits of an account over its calls, and when its calls last changed.

Revision ID: 0015
Revises: 0014
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
_IS_UNFINISHED = "source = 'account' AND status IN ('queued', 'processing')"


def upgrade() -> None:
    op.add_column("audits", sa.Column("window_days", sa.Integer(), nullable=True))
    op.drop_constraint(op.f("ck_audits_source"), "audits", type_="check")
    op.create_check_constraint(
        op.f("ck_audits_source"), "audits", "source IN ('ingest', 'upload', 'account')"
    )
    op.create_index(
        "uq_audits_unfinished_account",
        "audits",
        ["account_id"],
        unique=True,
        postgresql_where=sa.text(_IS_UNFINISHED),
    )
    op.create_table(
        "account_calls",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("first_import_at", _TIME, nullable=False),
        sa.Column("last_import_at", _TIME, nullable=False),
        sa.Column("last_audit_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_account_calls_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_account_calls")),
    )
    op.create_index(
        op.f("ix_account_calls_last_import_at"), "account_calls", ["last_import_at"], unique=False
    )


def downgrade() -> None:
    op.drop_table("account_calls")
    op.execute("DELETE FROM audits WHERE source = 'account'")
    op.drop_index("uq_audits_unfinished_account", table_name="audits")
    op.drop_constraint(op.f("ck_audits_source"), "audits", type_="check")
    op.create_check_constraint(op.f("ck_audits_source"), "audits", "source IN ('ingest', 'upload')")
    op.drop_column("audits", "window_days")
