"""Indexes for the clients of an account, and for its uploads among many batches.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    columns = [
        "account_id",
        sa.text("coalesce(client, '')"),
        sa.text("coalesce(environment, '')"),
        "created_at",
    ]
    op.create_index(
        "ix_audits_clients",
        "audits",
        columns,
        unique=False,
        postgresql_where=sa.text("source = 'ingest'"),
    )
    op.create_index(
        "ix_audits_uploads",
        "audits",
        ["account_id", "created_at"],
        unique=False,
        postgresql_where=sa.text("source = 'upload'"),
    )


def downgrade() -> None:
    op.drop_index("ix_audits_uploads", table_name="audits")
    op.drop_index("ix_audits_clients", table_name="audits")
