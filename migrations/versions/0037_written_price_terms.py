"""Which price terms are as this release writes them, and how many it couldn't read.

Housekeeping rewrites those that an earlier release has stored as they were typed, and those that it
stores until it has stopped. It reads both forms.

Revision ID: 0037
Revises: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("audit_settings", sa.Column("terms_md5", sa.String(), nullable=True))
    excluded = sa.Column("terms_excluded", sa.Integer(), nullable=False, server_default="0")
    op.add_column("audit_settings", excluded)


def downgrade() -> None:
    op.drop_column("audit_settings", "terms_excluded")
    op.drop_column("audit_settings", "terms_md5")
