"""Audit accounts again that have calls of days after today.

Earlier releases didn't note when such calls enter the audits of their account, which may have ended
with them. Without a new import, no audit would be due until then.

Revision ID: 0041
Revises: 0040
"""

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    today = "(now() AT TIME ZONE 'UTC')::date"
    later = " UNION ".join(
        f"SELECT account_id FROM {table} WHERE day > {today}"  # noqa: S608
        for table in ("spend_days", "plan_usage")
    )
    # One is due within the day, and notes the right day.
    op.execute(
        f"UPDATE account_calls SET next_call_on = {today}"  # noqa: S608
        f" WHERE next_call_on IS NULL AND account_id IN ({later})"
    )


def downgrade() -> None:
    pass
