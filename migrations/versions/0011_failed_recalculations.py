"""Audits whose recalculation failed go back to the report that they have.

An audit that has failed has no report from now on.

Revision ID: 0011
Revises: 0010
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "UPDATE audits SET status = 'done', finished_at = reports.created_at FROM reports"
        " WHERE reports.audit_id = audits.id AND audits.status = 'failed'"
    )


def downgrade() -> None:
    pass
