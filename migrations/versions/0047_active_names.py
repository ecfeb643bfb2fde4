"""Which of the reported projects and keys are still there.

Revision ID: 0047
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    active = sa.Column("is_active", sa.Boolean(), nullable=False, server_default=sa.true())
    op.add_column("reported_names", active, if_not_exists=True)


def downgrade() -> None:
    op.drop_column("reported_names", "is_active")
