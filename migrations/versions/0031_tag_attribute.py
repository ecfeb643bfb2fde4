"""The attribute of spans that an account chose as the tag of its calls.

Revision ID: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("accounts", sa.Column("tag_attribute", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("accounts", "tag_attribute")
