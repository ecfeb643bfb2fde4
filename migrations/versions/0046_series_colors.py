"""The color of each route, model, provider and environment of an account in charts.

Revision ID: 0046
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0042"
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


def downgrade() -> None:
    op.drop_table("series_colors")
