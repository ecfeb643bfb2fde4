"""How many attempts at an audit an outage has ended in a row, and when the next may begin.

Revision ID: 0038
Revises: 0037
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audits", sa.Column("outages", sa.Integer, nullable=False, server_default="0"))
    op.add_column("audits", sa.Column("resume_at", sa.DateTime(timezone=True)))


def downgrade() -> None:
    op.drop_column("audits", "resume_at")
    op.drop_column("audits", "outages")
