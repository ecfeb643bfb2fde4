"""The browser that asked for a sign-in link, security events, report links, forgotten customers.

The previous release leaves the new columns and tables empty; each has a meaning for that.

Revision ID: 0007
Revises: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("magic_links", sa.Column("browser_hash", sa.LargeBinary(), nullable=True))
    op.add_column("customers", sa.Column("forgotten_at", _NOW, nullable=True))
    op.create_table(
        "security_events",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("occurred_at", _NOW, nullable=False),
        sa.Column("browser", sa.String(), nullable=False, server_default=""),
        sa.Column("browser_hash", sa.LargeBinary(), nullable=True),
        sa.Column("details", JSONB(), nullable=False, server_default="{}"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_events")),
        _owner("security_events", "account_id", "accounts"),
    )
    op.create_index("ix_security_events_account", "security_events", ["account_id", "id"])
    op.create_index("ix_security_events_occurred_at", "security_events", ["occurred_at"])
    op.create_table(
        "report_links",
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("issued_at", _NOW, nullable=False),
        sa.Column("revoked_at", _NOW, nullable=True),
        sa.Column("opens", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("last_opened_at", _NOW, nullable=True),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_report_links")),
        _owner("report_links", "audit_id", "audits"),
        _owner("report_links", "account_id", "accounts"),
    )
    op.create_index("ix_report_links_account", "report_links", ["account_id", "issued_at"])


def _owner(table: str, column: str, owner: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{column}_{owner}")
    return sa.ForeignKeyConstraint([column], [f"{owner}.id"], name=name, ondelete="CASCADE")


def downgrade() -> None:
    op.drop_table("report_links")
    op.drop_table("security_events")
    op.drop_column("customers", "forgotten_at")
    op.drop_column("magic_links", "browser_hash")
