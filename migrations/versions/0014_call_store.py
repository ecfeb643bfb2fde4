"""The call store: the catalog of call files, what each audit brought, and spend by day.

Audits that were published before are not in it; rerun them to add their calls.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_USD = sa.Numeric(precision=30, scale=9)
_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "call_files",
        sa.Column("blob_key", sa.String(), nullable=False),
        sa.Column("level", sa.SmallInteger(), nullable=False),
        sa.Column("import_id", sa.String(), nullable=True),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("imports", sa.Integer(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("replaced_at", _TIME, nullable=True),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_call_files_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_call_files")),
    )
    op.create_index(op.f("ix_call_files_account_id"), "call_files", ["account_id"], unique=False)
    op.create_index(op.f("ix_call_files_blob_key"), "call_files", ["blob_key"], unique=False)
    op.create_index(
        "ix_call_files_live",
        "call_files",
        ["account_id", "first_day"],
        unique=False,
        postgresql_where=sa.text("replaced_at IS NULL"),
    )
    op.create_index(
        "ix_call_files_unmerged",
        "call_files",
        ["account_id"],
        unique=False,
        postgresql_where=sa.text("replaced_at IS NULL AND level < 100"),
    )
    op.create_table(
        "call_imports",
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("import_id", sa.String(), nullable=False),
        sa.Column("content_hash", sa.LargeBinary(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=True),
        sa.Column("last_day", sa.Date(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_call_imports_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_call_imports")),
    )
    op.create_index(
        op.f("ix_call_imports_account_id"), "call_imports", ["account_id"], unique=False
    )
    op.create_table(
        "replaced_imports",
        sa.Column("import_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("first_day", sa.Date(), nullable=False),
        sa.Column("last_day", sa.Date(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_replaced_imports_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("import_id", name=op.f("pk_replaced_imports")),
    )
    op.create_index(
        op.f("ix_replaced_imports_account_id"), "replaced_imports", ["account_id"], unique=False
    )
    op.create_table(
        "daily_spend",
        sa.Column("id", sa.BigInteger(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("environment", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_calls", sa.BigInteger(), nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cache_write_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", _USD, nullable=False),
        sa.Column("list_usd", _USD, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_daily_spend_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"],
            ["call_files.id"],
            name=op.f("fk_daily_spend_file_id_call_files"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_daily_spend")),
    )
    op.create_index(
        "ix_daily_spend_account_day", "daily_spend", ["account_id", "day"], unique=False
    )
    op.create_index(op.f("ix_daily_spend_file_id"), "daily_spend", ["file_id"], unique=False)


def downgrade() -> None:
    for table in ("daily_spend", "replaced_imports", "call_imports", "call_files"):
        op.drop_table(table)
