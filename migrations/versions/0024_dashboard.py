"""Indexes that contain the sums of the dashboard, and one of the audits of accounts.

Revision ID: 0024
Revises: 0023
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_DAYS = "ix_daily_spend_account_day"
_ROUTES = "ix_daily_spend_account_route"
_AUDITS = "ix_audits_of_account"


def upgrade() -> None:
    op.drop_index(_DAYS, table_name="daily_spend")
    op.create_index(
        _DAYS,
        "daily_spend",
        ["account_id", "day"],
        postgresql_include=["route", "calls", "cost_usd"],
    )
    op.create_index(
        _ROUTES,
        "daily_spend",
        ["account_id", "route", "day"],
        postgresql_include=["calls", "cost_usd"],
    )
    op.create_index(
        _AUDITS,
        "audits",
        ["account_id", "created_at", "id"],
        postgresql_where=sa.text("source = 'account'"),
    )


def downgrade() -> None:
    op.drop_index(_AUDITS, table_name="audits")
    op.drop_index(_ROUTES, table_name="daily_spend")
    op.drop_index(_DAYS, table_name="daily_spend")
    op.create_index(_DAYS, "daily_spend", ["account_id", "day"])
