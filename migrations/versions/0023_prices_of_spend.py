"""The prices of each call file's spend.

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("call_files", sa.Column("priced_with", sa.String(), nullable=True))
    op.add_column("call_files", sa.Column("rates", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("call_files", "rates")
    op.drop_column("call_files", "priced_with")
