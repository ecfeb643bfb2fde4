"""Dollars of each call file by day, kept by triggers.

Revision ID: 0026
Revises: 0025
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

_SUMS = """
      SELECT file_id, account_id, day, sum(calls), sum(cost_usd) FROM {rows}
      GROUP BY file_id, account_id, day ORDER BY file_id, day
"""
_BOTH = """(
        SELECT file_id, account_id, day, calls, cost_usd FROM added
        UNION ALL SELECT file_id, account_id, day, -calls, -cost_usd FROM dropped
      ) AS changed"""
_ADD = """
      INSERT INTO spend_days (file_id, account_id, day, calls, cost_usd) {sums}
      ON CONFLICT (file_id, day) DO UPDATE SET
        calls = spend_days.calls + excluded.calls,
        cost_usd = spend_days.cost_usd + excluded.cost_usd;
"""
# With an account, the rows of both tables are deleted in any order: nothing may be inserted.
_DROP = """
      UPDATE spend_days SET calls = spend_days.calls - sums.calls,
        cost_usd = spend_days.cost_usd - sums.cost_usd
      FROM ({sums}) AS sums (file_id, account_id, day, calls, cost_usd)
      WHERE spend_days.file_id = sums.file_id AND spend_days.day = sums.day;
"""
_EMPTY = """
      DELETE FROM spend_days USING (SELECT DISTINCT file_id, day FROM dropped) AS changed
      WHERE spend_days.file_id = changed.file_id AND spend_days.day = changed.day
        AND NOT EXISTS (SELECT FROM daily_spend
          WHERE file_id = changed.file_id AND day = changed.day);
"""
# What follows each statement; the rows before and after it are tables of its trigger.
_TRIGGERS = {
    "INSERT": (_ADD.format(sums=_SUMS.format(rows="added")), "NEW TABLE AS added"),
    "DELETE": (_DROP.format(sums=_SUMS.format(rows="dropped")) + _EMPTY, "OLD TABLE AS dropped"),
    "UPDATE": (
        _ADD.format(sums=_SUMS.format(rows=_BOTH)) + _EMPTY,
        "OLD TABLE AS dropped NEW TABLE AS added",
    ),
}


def upgrade() -> None:
    op.create_table(
        "spend_days",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_spend_days_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"],
            ["call_files.id"],
            name=op.f("fk_spend_days_file_id_call_files"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("file_id", "day", name=op.f("pk_spend_days")),
    )
    op.create_index(
        "ix_spend_days_account",
        "spend_days",
        ["account_id", "day"],
        postgresql_include=["cost_usd"],
    )
    # A new trigger locks the table, so nothing is added to it before the end of the transaction.
    for statement, (body, tables) in _TRIGGERS.items():
        name = f"sum_spend_days_{statement.lower()}"
        op.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$"
            f" BEGIN {body} RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {name} AFTER {statement} ON daily_spend REFERENCING {tables}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )
    op.execute(
        f"INSERT INTO spend_days (file_id, account_id, day, calls, cost_usd)"
        f" {_SUMS.format(rows='daily_spend')}"
    )


def downgrade() -> None:
    for statement in _TRIGGERS:
        name = f"sum_spend_days_{statement.lower()}"
        op.execute(f"DROP TRIGGER {name} ON daily_spend")
        op.execute(f"DROP FUNCTION {name}()")
    op.drop_table("spend_days")
