"""How accounts want to hear of reports; payments whose account is deleted.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "accounts", sa.Column("report_mails", sa.String(), nullable=False, server_default="each")
    )
    op.create_check_constraint(
        op.f("ck_accounts_report_mails"), "accounts", "report_mails IN ('each', 'daily', 'none')"
    )
    op.add_column(
        "accounts", sa.Column("reports_told_until", sa.DateTime(timezone=True), nullable=True)
    )
    op.add_column("payments", sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("payments", "closed_at")
    op.drop_constraint("ck_accounts_report_mails", "accounts")
    op.drop_column("accounts", "reports_told_until")
    op.drop_column("accounts", "report_mails")
