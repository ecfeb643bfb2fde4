"""Accounts, credentials, audits with their findings and reports, idempotency keys.

Revision ID: 0001
Revises: none
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_accounts()
    _create_subscriptions()
    _create_ingest_keys()
    _create_read_tokens()
    _create_audits()
    _create_findings()
    _create_reports()
    _create_idempotency_keys()


def downgrade() -> None:
    for table in (
        "idempotency_keys",
        "reports",
        "findings",
        "audits",
        "read_tokens",
        "ingest_keys",
        "subscriptions",
        "accounts",
    ):
        op.drop_table(table)


def _create_accounts() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("email", name=op.f("uq_accounts_email")),
    )


def _create_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("plan", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=True),
        sa.Column("event_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("plan IN ('pro', 'team')", name=op.f("ck_subscriptions_plan")),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_subscriptions_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_subscriptions")),
    )


def _create_ingest_keys() -> None:
    op.create_table(
        "ingest_keys",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_ingest_keys_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingest_keys")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_ingest_keys_secret_hash")),
    )
    op.create_index(op.f("ix_ingest_keys_account_id"), "ingest_keys", ["account_id"])


def _create_read_tokens() -> None:
    op.create_table(
        "read_tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_read_tokens_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_read_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_read_tokens_secret_hash")),
    )
    op.create_index(op.f("ix_read_tokens_account_id"), "read_tokens", ["account_id"])


def _create_audits() -> None:
    op.create_table(
        "audits",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("blob_key", sa.String(), nullable=False),
        sa.Column("frame_key", sa.String(), nullable=True),
        sa.Column("starts", sa.Integer(), nullable=False),
        sa.Column("enqueued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("valid_pct", sa.Double(), nullable=True),
        sa.Column("observed_days", sa.Integer(), nullable=False),
        sa.Column("total_spend_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.Column("projected_spend_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.Column("projected_savings_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.Column("savings_pct", sa.Double(), nullable=False),
        sa.Column("equiv_spend", sa.Boolean(), nullable=False),
        sa.Column("findings_count", sa.Integer(), nullable=False),
        sa.CheckConstraint("source IN ('ingest', 'upload')", name=op.f("ck_audits_source")),
        sa.CheckConstraint(
            "status IN ('queued', 'processing', 'done', 'failed')", name=op.f("ck_audits_status")
        ),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_audits_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audits")),
    )
    op.create_index("ix_audits_account_created", "audits", ["account_id", "created_at", "id"])
    op.create_index(
        "ix_audits_unfinished",
        "audits",
        ["source", "created_at", "id"],
        postgresql_where=sa.text("status IN ('queued', 'processing')"),
    )


def _create_findings() -> None:
    op.create_table(
        "findings",
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("detector", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("severity", sa.String(), nullable=False),
        sa.Column("confidence", sa.String(), nullable=False),
        sa.Column("monthly_cost_impact_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.Column("observed_cost_impact_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.Column("fix", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["audit_id"],
            ["audits.id"],
            name=op.f("fk_findings_audit_id_audits"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("audit_id", "rank", name=op.f("pk_findings")),
    )


def _create_reports() -> None:
    op.create_table(
        "reports",
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name=op.f("fk_reports_audit_id_audits"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_reports")),
    )


def _create_idempotency_keys() -> None:
    op.create_table(
        "idempotency_keys",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_idempotency_keys_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["audit_id"],
            ["audits.id"],
            name=op.f("fk_idempotency_keys_audit_id_audits"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "route", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_audit_id"), "idempotency_keys", ["audit_id"])
