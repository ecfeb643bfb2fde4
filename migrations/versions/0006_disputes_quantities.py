"""Payments with a quantity and disputes, and several credits of one payment.

Processes of the earlier release can't grant credits after this step; the payment provider sends
the event again until one of this release takes it.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "payments", sa.Column("quantity", sa.Integer(), nullable=False, server_default="1")
    )
    op.add_column("payments", sa.Column("disputed_at", _TIME, nullable=True))
    op.add_column("payments", sa.Column("dispute_won_at", _TIME, nullable=True))
    op.add_column(
        "credits", sa.Column("position", sa.Integer(), nullable=False, server_default="1")
    )
    op.drop_constraint("uq_credits_payment_id", "credits")
    op.create_unique_constraint(
        op.f("uq_credits_payment_id"), "credits", ["payment_id", "position"]
    )


def downgrade() -> None:
    op.drop_constraint("uq_credits_payment_id", "credits")
    # The earlier shape has one credit for each payment; the others keep no payment.
    op.execute("UPDATE credits SET payment_id = NULL WHERE position > 1")
    op.create_unique_constraint(op.f("uq_credits_payment_id"), "credits", ["payment_id"])
    op.drop_column("credits", "position")
    for column in ("dispute_won_at", "disputed_at", "quantity"):
        op.drop_column("payments", column)
