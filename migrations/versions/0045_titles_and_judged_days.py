"""What titles of findings need, how many findings have savings, and which days were judged.

Revision ID: 0045
Revises: 0044
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

_USD = sa.Numeric(precision=30, scale=9)
_ADDED = {
    "account_findings": {
        "suggested_model": sa.String(),
        "impact_low": _USD,
        "impact_high": _USD,
    },
    "audits": {"priced_findings": sa.Integer()},
    "account_watches": {"judged": JSONB(), "judged_at": sa.DateTime(timezone=True)},
}


def upgrade() -> None:
    for table, columns in _ADDED.items():
        for name, kind in columns.items():
            op.add_column(table, sa.Column(name, kind, nullable=True), if_not_exists=True)


def downgrade() -> None:
    for table, columns in _ADDED.items():
        for name in columns:
            op.drop_column(table, name)
