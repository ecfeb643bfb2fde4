"""Amounts of cost reports with all of their digits: a float has up to 17.

Revision ID: 0050
Revises: 0049
"""

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

ACCEPTED_LOCKS = {
    "changing-column-type": "PostgreSQL only drops the limit of digits; it reads and writes no row"
}
_COLUMNS = ("amount", "list_amount")


def upgrade() -> None:
    for name in _COLUMNS:
        op.alter_column("reported_costs", name, type_=sa.Numeric())


def downgrade() -> None:
    for name in _COLUMNS:
        op.alter_column("reported_costs", name, type_=sa.Numeric(30, 12))
