"""A weekly digest of mail, the default of new accounts. Accounts keep what they have chosen.

Revision ID: 0028
Revises: 0027
"""

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_NAME = "ck_accounts_report_mails"


def upgrade() -> None:
    op.drop_constraint(op.f(_NAME), "accounts")
    op.create_check_constraint(
        op.f(_NAME), "accounts", "report_mails IN ('each', 'daily', 'weekly', 'none')"
    )
    op.alter_column("accounts", "report_mails", server_default="weekly")


def downgrade() -> None:
    op.execute("UPDATE accounts SET report_mails = 'daily' WHERE report_mails = 'weekly'")
    op.alter_column("accounts", "report_mails", server_default="each")
    op.drop_constraint(op.f(_NAME), "accounts")
    op.create_check_constraint(op.f(_NAME), "accounts", "report_mails IN ('each', 'daily', 'none')")
