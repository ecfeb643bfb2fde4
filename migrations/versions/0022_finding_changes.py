"""Changes of a finding's assignee and note, and whether its dollars are projected.

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    field = sa.Column("field", sa.String(), server_default="state", nullable=False)
    op.add_column("account_finding_changes", field)
    is_monthly = sa.Column("is_monthly", sa.Boolean(), server_default=sa.true(), nullable=False)
    op.add_column("account_findings", is_monthly)


def downgrade() -> None:
    op.drop_column("account_findings", "is_monthly")
    op.drop_column("account_finding_changes", "field")
