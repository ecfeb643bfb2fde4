"""Passkeys, recovery codes, sign-ins that wait for a passkey, and sessions that used one.

The previous release doesn't ask for passkeys, so add none before all processes are restarted.

Revision ID: 0008
Revises: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_NOW = sa.DateTime(timezone=True)


def upgrade() -> None:
    _create(
        "passkeys",
        sa.Column("credential_id", sa.LargeBinary(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("sign_count", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        sa.Column("last_used_at", _NOW, nullable=True),
        unique="credential_id",
    )
    _create(
        "recovery_codes",
        sa.Column("code_hash", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _NOW, nullable=False),
        unique="code_hash",
    )
    _create(
        "pending_sign_ins",
        sa.Column("secret_hash", sa.LargeBinary(), nullable=False),
        sa.Column("challenge", sa.LargeBinary(), nullable=False),
        sa.Column("next_path", sa.String(), nullable=False),
        sa.Column("wrong_answers", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("expires_at", _NOW, nullable=False),
        unique="secret_hash",
    )
    op.create_index(op.f("ix_pending_sign_ins_expires_at"), "pending_sign_ins", ["expires_at"])
    op.add_column(
        "sessions",
        sa.Column("used_passkey", sa.Boolean(), nullable=False, server_default=sa.false()),
    )


def _create(table: str, *columns: sa.Column[object], unique: str) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        sa.UniqueConstraint(unique, name=op.f(f"uq_{table}_{unique}")),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f(f"fk_{table}_account_id_accounts"),
            ondelete="CASCADE",
        ),
    )
    op.create_index(op.f(f"ix_{table}_account_id"), table, ["account_id"])


def downgrade() -> None:
    op.drop_column("sessions", "used_passkey")
    for table in ("pending_sign_ins", "recovery_codes", "passkeys"):
        op.drop_table(table)
