"""Budgets, unusual days, how far accounts were watched, and the choice of mails about spend.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_AMOUNT = sa.Numeric(precision=14, scale=2)
_USD = sa.Numeric(precision=30, scale=9)
_TIME = sa.DateTime(timezone=True)
_NOW = sa.text("now()")
_UNMAILED = sa.text("mailed_at IS NULL")


def upgrade() -> None:
    op.add_column(
        "accounts",
        sa.Column("spend_mails", sa.Boolean(), server_default=sa.text("true"), nullable=False),
    )
    op.create_table(
        "budgets",
        sa.Column("route", sa.String(), nullable=True),
        sa.Column("amount_usd", _AMOUNT, nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.CheckConstraint("amount_usd > 0", name=op.f("ck_budgets_amount_usd")),
        _of_account("budgets"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
    )
    op.create_index(op.f("ix_budgets_account_id"), "budgets", ["account_id"], unique=False)
    op.create_index("uq_budgets_route", "budgets", ["account_id", "route"], unique=True)
    op.create_index(
        "uq_budgets_account",
        "budgets",
        ["account_id"],
        unique=True,
        postgresql_where=sa.text("route IS NULL"),
    )
    op.create_table(
        "budget_notices",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("month", sa.Date(), nullable=False),
        sa.Column("threshold", sa.String(), nullable=False),
        sa.Column("amount_usd", _AMOUNT, nullable=False),
        sa.Column("spend_usd", _USD, nullable=False),
        sa.Column("forecast_usd", _USD, nullable=True),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("mailed_at", _TIME, nullable=True),
        sa.CheckConstraint(
            "threshold IN ('50', '80', '100', 'forecast')",
            name=op.f("ck_budget_notices_threshold"),
        ),
        sa.ForeignKeyConstraint(
            ["budget_id"],
            ["budgets.id"],
            name=op.f("fk_budget_notices_budget_id_budgets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "budget_id", "month", "threshold", "amount_usd", name=op.f("pk_budget_notices")
        ),
    )
    _index_unmailed("budget_notices", "budget_id")
    op.create_table(
        "unusual_days",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("series", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("created_at", _TIME, server_default=_NOW, nullable=False),
        sa.Column("mailed_at", _TIME, nullable=True),
        _of_account("unusual_days"),
        sa.PrimaryKeyConstraint("account_id", "day", name=op.f("pk_unusual_days")),
    )
    _index_unmailed("unusual_days", "account_id")
    op.create_table(
        "account_watches",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("watched_until", sa.Date(), nullable=True),
        sa.Column("budgets_checked_at", _TIME, nullable=True),
        _of_account("account_watches"),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_account_watches")),
    )


def _of_account(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_account_id_accounts")
    return sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=name, ondelete="CASCADE")


def _index_unmailed(table: str, column: str) -> None:
    op.create_index(
        f"ix_{table}_unmailed", table, [column], unique=False, postgresql_where=_UNMAILED
    )


def downgrade() -> None:
    for table in ("account_watches", "unusual_days", "budget_notices", "budgets"):
        op.drop_table(table)
    op.drop_column("accounts", "spend_mails")
