"""How audits are projected, their savings by confidence, and the ranges of findings.

Reports of the previous release have none of these; rerun an audit to fill them in.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_USD = sa.Numeric(precision=30, scale=9)
_TIME = sa.DateTime(timezone=True)
_COLUMNS = {
    "audits": {
        "projection": sa.String(),
        "span_days": sa.Float(),
        "window_start": _TIME,
        "monthly_factor": sa.Float(),
        "verified_savings_usd": _USD,
        "estimated_savings_usd": _USD,
        "estimated_savings_low_usd": _USD,
        "estimated_savings_high_usd": _USD,
        "conditional_savings_usd": _USD,
        "conditional_savings_low_usd": _USD,
        "conditional_savings_high_usd": _USD,
    },
    "findings": {
        "impact_low": _USD,
        "impact_high": _USD,
        "first_seen": _TIME,
        "last_seen": _TIME,
    },
}


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name, kind in columns.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name in columns:
            op.drop_column(table, name)
