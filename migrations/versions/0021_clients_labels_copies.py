"""The clients of batches, the labels of uploads, and what recognizes a file uploaded again.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_HAS_CONTENT = sa.text("content_hash IS NOT NULL")
_IS_FILE = sa.text("file_hash IS NOT NULL")


def upgrade() -> None:
    for column in ("client", "environment", "label"):
        op.add_column("audits", sa.Column(column, sa.String(), nullable=True))
    op.add_column("audits", sa.Column("content_hash", sa.LargeBinary(), nullable=True))
    op.add_column("call_imports", sa.Column("file_hash", sa.LargeBinary(), nullable=True))
    op.create_index(
        "ix_audits_content",
        "audits",
        ["account_id", "content_hash"],
        unique=False,
        postgresql_where=_HAS_CONTENT,
    )
    op.create_index(
        "uq_call_imports_file",
        "call_imports",
        ["account_id", "file_hash"],
        unique=True,
        postgresql_where=_IS_FILE,
    )


def downgrade() -> None:
    op.drop_index("uq_call_imports_file", table_name="call_imports")
    op.drop_index("ix_audits_content", table_name="audits")
    op.drop_column("call_imports", "file_hash")
    for column in ("content_hash", "label", "environment", "client"):
        op.drop_column("audits", column)
