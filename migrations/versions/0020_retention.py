"""Retention: which reports and call files were deleted, and when.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("audits", sa.Column("report_deleted_at", _TIME, nullable=True))
    op.add_column("call_files", sa.Column("purged_at", _TIME, nullable=True))
    op.create_index(
        "ix_audits_report_kept",
        "audits",
        ["finished_at"],
        unique=False,
        postgresql_where=sa.text(
            "source = 'ingest' AND status = 'done' AND report_deleted_at IS NULL"
        ),
    )
    op.create_index(
        "ix_audits_account",
        "audits",
        ["finished_at"],
        unique=False,
        postgresql_where=sa.text("source = 'account'"),
    )
    op.create_index(
        op.f("ix_account_finding_history_audited_at"),
        "account_finding_history",
        ["audited_at"],
        unique=False,
    )


def downgrade() -> None:
    op.drop_index(
        op.f("ix_account_finding_history_audited_at"), table_name="account_finding_history"
    )
    op.drop_index("ix_audits_account", table_name="audits")
    op.drop_index("ix_audits_report_kept", table_name="audits")
    # The rows of purged files stay replaced; their spend goes with them after a day.
    op.drop_column("call_files", "purged_at")
    op.drop_column("audits", "report_deleted_at")
