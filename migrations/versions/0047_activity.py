"""What people did with coding agents, and which reported projects and keys are still there.

Revision ID: 0047
Revises: 0046
"""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


_COUNTS = (
    *("sessions", "lines_added", "lines_removed", "commits", "pull_requests"),
    *("accepted", "rejected", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "cache_write_tokens"),
)


def upgrade() -> None:
    for table, column, value in (
        ("reported_names", "is_active", sa.true()),
        ("provider_connections", "shows_people", sa.false()),
    ):
        added = sa.Column(column, sa.Boolean(), nullable=False, server_default=value)
        op.add_column(table, added, if_not_exists=True)
    op.create_table(
        "reported_activity",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("connection_id", sa.String(), nullable=False),
        sa.Column("report", sa.String(), nullable=False),
        sa.Column("bucket_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("person_id", "plan", "terminal", "model")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTS),
        sa.Column("estimated_usd", sa.Numeric(30, 12), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_reported_activity_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["connection_id"],
            ["provider_connections.id"],
            name=op.f("fk_reported_activity_connection_id_provider_connections"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reported_activity")),
    )
    own = ["connection_id", "report", "bucket_at"]
    op.create_index("ix_reported_activity_connection", "reported_activity", own)
    op.create_index("ix_reported_activity_account", "reported_activity", ["account_id", "day"])


def downgrade() -> None:
    op.drop_table("reported_activity")
    op.drop_column("provider_connections", "shows_people")
    op.drop_column("reported_names", "is_active")
