"""An index of spend by day that contains all labels, so that filters read no more than it.

Revision ID: 0034
Revises: 0033
"""

from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

_WITH_LABELS = ("ix_daily_spend_account_labels", ["provider", "model", "environment"])
_WITHOUT = ("ix_daily_spend_account_day", [])


def upgrade() -> None:
    _replace(_WITHOUT[0], *_WITH_LABELS)


def downgrade() -> None:
    _replace(_WITH_LABELS[0], *_WITHOUT)


def _replace(old: str, new: str, labels: list[str]) -> None:
    included = ["route", *labels, "calls", "cost_usd"]
    with op.get_context().autocommit_block():
        op.drop_index(new, if_exists=True, postgresql_concurrently=True)
        op.create_index(
            new,
            "daily_spend",
            ["account_id", "day"],
            if_not_exists=True,
            postgresql_include=included,
            postgresql_concurrently=True,
        )
        op.drop_index(old, if_exists=True, postgresql_concurrently=True)
