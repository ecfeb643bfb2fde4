"""Which reports are packed; housekeeping packs the others in batches.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import context, op
from alembic.util import CommandError

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "reports", sa.Column("is_packed", sa.Boolean(), server_default="false", nullable=False)
    )
    op.create_index(
        "ix_reports_unpacked",
        "reports",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("NOT is_packed"),
    )


def downgrade() -> None:
    if context.is_offline_mode():
        raise CommandError(
            "Packed reports are not unpacked by SQL alone: run this downgrade online."
        )
    _unpack(op.get_bind())
    op.drop_index("ix_reports_unpacked", table_name="reports")
    op.drop_column("reports", "is_packed")


def _unpack(connection: sa.Connection) -> None:
    # Dictionaries stay the same in every release.
    from service.core.packing import unpack

    packed = sa.text("SELECT audit_id FROM reports WHERE is_packed")
    read = sa.text("SELECT document FROM reports WHERE audit_id = :id")
    write = sa.text("UPDATE reports SET document = :document WHERE audit_id = :id")
    for audit_id in connection.scalars(packed).all():
        document = unpack(bytes(connection.scalar(read, {"id": audit_id})))
        connection.execute(write, {"id": audit_id, "document": document})
