"""The assumptions and price terms of an account.

The previous release audits with the defaults, so save none before all workers are restarted.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_settings",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("assumptions", JSONB(), nullable=False, server_default="{}"),
        sa.Column("price_terms", sa.String(), nullable=False, server_default=""),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("account_id", name=op.f("pk_audit_settings")),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_audit_settings_account_id_accounts"),
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    op.drop_table("audit_settings")
