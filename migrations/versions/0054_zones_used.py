"""An index of the time zones that accounts have chosen, which each turn of the watch lists.

Revision ID: 0054
Revises: 0053
"""

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None

_INDEX = "ix_accounts_zone"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # One that an interrupted try has left is invalid.
        op.drop_index(_INDEX, "accounts", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            _INDEX,
            "accounts",
            ["time_zone"],
            postgresql_where=sa.text("time_zone IS NOT NULL"),
            if_not_exists=True,
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index(_INDEX, "accounts", if_exists=True, postgresql_concurrently=True)
