"""OAuth applications with their codes and tokens; keys and tokens that expire and count their uses.

Revision ID: 0004
Revises: 0003
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
    for table in ("ingest_keys", "read_tokens"):
        op.add_column(table, sa.Column("expires_at", _NOW, nullable=True))
        op.add_column(table, sa.Column("uses", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_index(
        op.f("ix_audits_account_status"), "audits", ["account_id", "status", "created_at", "id"]
    )
    _create_applications()
    _create_codes()
    _create_tokens()


def _create_applications() -> None:
    op.create_table(
        "oauth_applications",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("redirect_uris", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("secret_rotated_at", _NOW, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_oauth_applications")),
        sa.UniqueConstraint("client_id", name=op.f("uq_oauth_applications_client_id")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_oauth_applications_secret_hash")),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_oauth_applications_account_id_accounts"),
            ondelete="CASCADE",
        ),
    )
    op.create_index(op.f("ix_oauth_applications_account_id"), "oauth_applications", ["account_id"])


def _create_codes() -> None:
    op.create_table(
        "oauth_codes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("redirect_uri", sa.String(), nullable=False),
        sa.Column("code_challenge", sa.String(), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("expires_at", _NOW, nullable=False),
        sa.Column("used_at", _NOW, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_oauth_codes")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_oauth_codes_secret_hash")),
        *_owners("oauth_codes"),
    )
    _index_owners("oauth_codes")
    op.create_index(op.f("ix_oauth_codes_created_at"), "oauth_codes", ["created_at"])


def _create_tokens() -> None:
    op.create_table(
        "oauth_tokens",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("application_id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("code_id", sa.String(), nullable=False),
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("expires_at", _NOW, nullable=False),
        sa.Column("last_used_at", _NOW, nullable=True),
        sa.Column("uses", sa.BigInteger(), nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_oauth_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_oauth_tokens_secret_hash")),
        sa.ForeignKeyConstraint(
            ["code_id"],
            ["oauth_codes.id"],
            name=op.f("fk_oauth_tokens_code_id_oauth_codes"),
            ondelete="CASCADE",
        ),
        *_owners("oauth_tokens"),
    )
    _index_owners("oauth_tokens")
    op.create_index(op.f("ix_oauth_tokens_code_id"), "oauth_tokens", ["code_id"])


def _owners(table: str) -> tuple[sa.ForeignKeyConstraint, ...]:
    """The application that asked, and the account that allowed; nothing outlives either."""
    return tuple(
        sa.ForeignKeyConstraint(
            [column],
            [f"{owner}.id"],
            name=op.f(f"fk_{table}_{column}_{owner}"),
            ondelete="CASCADE",
        )
        for column, owner in (
            ("application_id", "oauth_applications"),
            ("account_id", "accounts"),
        )
    )


def _index_owners(table: str) -> None:
    op.create_index(op.f(f"ix_{table}_application_id"), table, ["application_id"])
    op.create_index(op.f(f"ix_{table}_account_id"), table, ["account_id"])


def downgrade() -> None:
    for table in ("oauth_tokens", "oauth_codes", "oauth_applications"):
        op.drop_table(table)
    op.drop_index(op.f("ix_audits_account_status"), "audits")
    for table in ("ingest_keys", "read_tokens"):
        op.drop_column(table, "uses")
        op.drop_column(table, "expires_at")
