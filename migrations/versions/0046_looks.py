"""Colors of series, saved views, and changes of findings that can be undone.

Revision ID: 0046
Revises: 0045
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "series_colors",
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("slot", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_series_colors_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("account_id", "kind", "name", name=op.f("pk_series_colors")),
    )
    op.create_table(
        "saved_views",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("page", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("query", sa.String(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_saved_views_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_views")),
    )
    op.create_index(op.f("ix_saved_views_account_id"), "saved_views", ["account_id"])
    op.add_column("account_finding_changes", sa.Column("batch", sa.String(), nullable=True))
    op.add_column(
        "account_finding_changes", sa.Column("restored", postgresql.JSONB(), nullable=True)
    )


def downgrade() -> None:
    op.drop_column("account_finding_changes", "restored")
    op.drop_column("account_finding_changes", "batch")
    op.drop_table("saved_views")
    op.drop_table("series_colors")
