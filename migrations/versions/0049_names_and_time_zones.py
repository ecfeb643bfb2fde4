"""The name of an account on its reports, and its time zone.

Revision ID: 0049
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("name", sa.String(), nullable=False, server_default=""))
    op.add_column("accounts", sa.Column("time_zone", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("accounts", "time_zone")
    op.drop_column("accounts", "name")
