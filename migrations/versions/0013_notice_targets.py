"""Targets of notices, and the deliveries to them.

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "notice_targets",
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("disabled_at", _NOW, nullable=True),
        sa.Column("disabled_reason", sa.String(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("resume_at", _NOW, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.CheckConstraint("kind IN ('webhook', 'slack')", name=op.f("ck_notice_targets_kind")),
        sa.CheckConstraint(
            "disabled_reason IN ('gone', 'failing')", name=op.f("ck_notice_targets_disabled_reason")
        ),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_notice_targets_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice_targets")),
    )
    op.create_index(op.f("ix_notice_targets_account_id"), "notice_targets", ["account_id"])
    _create_deliveries()


def _create_deliveries() -> None:
    op.create_table(
        "notice_deliveries",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("target_id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("event_type", sa.String(), nullable=False),
        sa.Column("payload", postgresql.JSONB(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("queued_at", _NOW, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", _NOW, nullable=False),
        sa.Column("lease_token", sa.String(), nullable=True),
        sa.Column("lease_expires_at", _NOW, nullable=True),
        sa.Column("status_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("delivered_at", _NOW, nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'sending', 'delivered', 'failed')",
            name=op.f("ck_notice_deliveries_status"),
        ),
        sa.ForeignKeyConstraint(
            ["target_id"],
            ["notice_targets.id"],
            name=op.f("fk_notice_deliveries_target_id_notice_targets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice_deliveries")),
        sa.UniqueConstraint("target_id", "event_id", name=op.f("uq_notice_deliveries_target_id")),
    )
    op.create_index("ix_notice_deliveries_target", "notice_deliveries", ["target_id", "created_at"])
    op.create_index(
        "ix_notice_deliveries_unsent",
        "notice_deliveries",
        ["next_attempt_at", "id"],
        postgresql_where=sa.text("status IN ('queued', 'sending')"),
    )


def downgrade() -> None:
    op.drop_table("notice_deliveries")
    op.drop_table("notice_targets")
