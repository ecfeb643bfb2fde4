"""Findings of an account over time.

Revision ID: 0016
Revises: 0015
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_USD = sa.Numeric(precision=30, scale=9)
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "account_findings",
        sa.Column("identity", sa.LargeBinary(), nullable=False),
        sa.Column("detector", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("finding_id", sa.String(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("fix", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("monthly_usd", _USD, nullable=False),
        sa.Column("observed_usd", _USD, nullable=False),
        sa.Column("first_seen", _TIME, nullable=False),
        sa.Column("last_seen", _TIME, nullable=False),
        sa.Column("fixed_at", _TIME, nullable=True),
        sa.Column("silent_until", _TIME, nullable=True),
        sa.Column("note", sa.String(), server_default="", nullable=False),
        sa.Column("assignee", sa.String(), server_default="", nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.CheckConstraint(
            "state IN ('open', 'acknowledged', 'dismissed', 'fixed', 'returned')",
            name=op.f("ck_account_findings_state"),
        ),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_account_findings_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_findings")),
        sa.UniqueConstraint("account_id", "identity", name=op.f("uq_account_findings_account_id")),
    )
    op.create_index(
        op.f("ix_account_findings_account_id"), "account_findings", ["account_id"], unique=False
    )
    op.create_table(
        "account_finding_history",
        sa.Column("account_finding_id", sa.String(), nullable=False),
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("audited_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("monthly_usd", _USD, nullable=False),
        sa.Column("observed_usd", _USD, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_finding_id"],
            ["account_findings.id"],
            name=op.f("fk_account_finding_history_account_finding_id_account_findings"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "account_finding_id", "audit_id", name=op.f("pk_account_finding_history")
        ),
    )
    op.create_table(
        "account_finding_days",
        sa.Column("account_finding_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("saving_usd", _USD, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_finding_id"],
            ["account_findings.id"],
            name=op.f("fk_account_finding_days_account_finding_id_account_findings"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_finding_id", "day", name=op.f("pk_account_finding_days")),
    )
    op.create_table(
        "account_finding_changes",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("account_finding_id", sa.String(), nullable=False),
        sa.Column("changed_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("changed_by", sa.String(), nullable=False),
        sa.Column("before", sa.String(), nullable=False),
        sa.Column("after", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), server_default="", nullable=False),
        sa.ForeignKeyConstraint(
            ["account_finding_id"],
            ["account_findings.id"],
            name=op.f("fk_account_finding_changes_account_finding_id_account_findings"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_finding_changes")),
    )
    op.create_index(
        op.f("ix_account_finding_changes_account_finding_id"),
        "account_finding_changes",
        ["account_finding_id"],
        unique=False,
    )


def downgrade() -> None:
    for table in (
        "account_finding_changes",
        "account_finding_days",
        "account_finding_history",
        "account_findings",
    ):
        op.drop_table(table)
