"""Connections to model providers, and the usage and costs that they report.

Revision ID: 0043
Revises: 0042
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None

_USD = sa.Numeric(30, 12)


def _moment(name: str, *, nullable: bool = False) -> sa.Column:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, **options: object) -> sa.Column:
    return sa.Column(name, sa.String(), **{"nullable": False, **options})


def _owner(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["account_id"],
        ["accounts.id"],
        name=op.f(f"fk_{table}_account_id_accounts"),
        ondelete="CASCADE",
    )


def _of_connection(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["connection_id"],
        ["provider_connections.id"],
        name=op.f(f"fk_{table}_connection_id_provider_connections"),
        ondelete="CASCADE",
    )


def _number() -> sa.Column:
    return sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False)


def _reported() -> list[sa.Column]:
    return [
        _number(),
        _text("account_id"),
        _text("connection_id"),
        _text("report"),
        _moment("bucket_at"),
        sa.Column("day", sa.Date(), nullable=False),
        _text("project_id"),
        _text("key_id"),
        _text("model"),
    ]


def upgrade() -> None:
    op.create_table(
        "provider_connections",
        _text("id"),
        _text("account_id"),
        _text("provider"),
        _text("label", server_default=""),
        _text("key"),
        _text("organization", server_default=""),
        sa.Column("sight", JSONB(), nullable=False, server_default="{}"),
        sa.Column("keeps_names", sa.Boolean(), nullable=False),
        _moment("created_at"),
        _moment("key_changed_at"),
        _moment("removed_at", nullable=True),
        sa.Column("progress", JSONB(), nullable=False, server_default="{}"),
        _moment("pulled_at", nullable=True),
        _moment("next_pull_at", nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False, server_default="0"),
        _moment("failing_since", nullable=True),
        _text("error", nullable=True),
        _moment("mailed_at", nullable=True),
        _moment("filled_at", nullable=True),
        _text("lease_token", nullable=True),
        _moment("lease_expires_at", nullable=True),
        _owner("provider_connections"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_connections")),
    )
    op.create_index(
        op.f("ix_provider_connections_account_id"), "provider_connections", ["account_id"]
    )
    op.create_index(
        "ix_provider_connections_next_pull_at", "provider_connections", ["next_pull_at"]
    )
    counts = ("requests", "prompt_tokens", "completion_tokens", "cached_tokens")
    counts = (*counts, "cache_write_tokens", "cache_write_1h_tokens")
    op.create_table(
        "reported_usage",
        *_reported(),
        sa.Column("is_hourly", sa.Boolean(), nullable=False),
        _text("tier"),
        _text("context"),
        _text("region"),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in counts),
        sa.Column("units", JSONB(), nullable=False),
        sa.Column("list_usd", _USD),
        sa.Column("cost_usd", _USD),
        _owner("reported_usage"),
        _of_connection("reported_usage"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reported_usage")),
    )
    op.create_table(
        "reported_costs",
        *_reported(),
        _text("kind"),
        _text("line_item"),
        sa.Column("amount", _USD, nullable=False),
        sa.Column("list_amount", _USD),
        _text("currency"),
        _owner("reported_costs"),
        _of_connection("reported_costs"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reported_costs")),
    )
    for table in ("reported_usage", "reported_costs"):
        op.create_index(f"ix_{table}_connection", table, ["connection_id", "report", "bucket_at"])
        op.create_index(f"ix_{table}_account", table, ["account_id", "day"])
    op.create_table(
        "reported_names",
        _text("connection_id"),
        _text("kind"),
        _text("name_id"),
        _text("account_id"),
        _text("name"),
        _text("parent_id"),
        _owner("reported_names"),
        _of_connection("reported_names"),
        sa.PrimaryKeyConstraint("connection_id", "kind", "name_id", name=op.f("pk_reported_names")),
    )
    op.create_table(
        "connection_pulls",
        _number(),
        _text("account_id"),
        _text("connection_id"),
        _text("report"),
        _moment("first_at"),
        _moment("last_at", nullable=True),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        _text("outcome"),
        _moment("began_at"),
        _moment("ended_at"),
        _owner("connection_pulls"),
        _of_connection("connection_pulls"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_connection_pulls")),
    )
    op.create_index("ix_connection_pulls_connection", "connection_pulls", ["connection_id", "id"])
    for table in ("reported_names", "connection_pulls"):
        op.create_index(op.f(f"ix_{table}_account_id"), table, ["account_id"])


def downgrade() -> None:
    op.drop_table("connection_pulls")
    op.drop_table("reported_names")
    op.drop_table("reported_costs")
    op.drop_table("reported_usage")
    op.drop_table("provider_connections")
