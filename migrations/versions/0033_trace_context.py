"""The trace that an audit continues, if its request was traced.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audits", sa.Column("traceparent", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("audits", "traceparent")
