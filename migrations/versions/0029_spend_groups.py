"""Dollars of each call file by day and by each label alone, kept by triggers.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_SUMS = """
      SELECT file_id, account_id, day, labels.label, labels.value, sum(calls), sum(cost_usd)
      FROM {rows} CROSS JOIN LATERAL (VALUES ('route', route), ('model', model),
        ('provider', provider), ('environment', environment)) AS labels (label, value)
      GROUP BY file_id, account_id, day, labels.label, labels.value
      ORDER BY file_id, day, labels.label, labels.value
"""
_BOTH = """(
        SELECT file_id, account_id, day, route, model, provider, environment, calls, cost_usd
        FROM added
        UNION ALL
        SELECT file_id, account_id, day, route, model, provider, environment, -calls, -cost_usd
        FROM dropped
      ) AS changed"""
_ADD = """
      INSERT INTO spend_groups (file_id, account_id, day, label, value, calls, cost_usd) {sums}
      ON CONFLICT (file_id, day, label, value) DO UPDATE SET
        calls = spend_groups.calls + excluded.calls,
        cost_usd = spend_groups.cost_usd + excluded.cost_usd;
"""
# With an account, the rows of both tables are deleted in any order: nothing may be inserted.
_DROP = """
      UPDATE spend_groups SET calls = spend_groups.calls - sums.calls,
        cost_usd = spend_groups.cost_usd - sums.cost_usd
      FROM ({sums}) AS sums (file_id, account_id, day, label, value, calls, cost_usd)
      WHERE spend_groups.file_id = sums.file_id AND spend_groups.day = sums.day
        AND spend_groups.label = sums.label AND spend_groups.value = sums.value;
"""
# No line has zero calls, so a group without calls has no lines any more.
_EMPTY = """
      DELETE FROM spend_groups USING (SELECT DISTINCT file_id, day FROM dropped) AS changed
      WHERE spend_groups.file_id = changed.file_id AND spend_groups.day = changed.day
        AND spend_groups.calls = 0;
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
        "spend_groups",
        sa.Column("file_id", sa.String(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.Column("account_id", sa.String(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("cost_usd", sa.Numeric(precision=30, scale=9), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_spend_groups_account_id_accounts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["file_id"],
            ["call_files.id"],
            name=op.f("fk_spend_groups_file_id_call_files"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("file_id", "day", "label", "value", name=op.f("pk_spend_groups")),
    )
    op.create_index(
        "ix_spend_groups_account",
        "spend_groups",
        ["account_id", "label", "day"],
        postgresql_include=["value", "calls", "cost_usd"],
    )
    op.create_index(
        "ix_spend_groups_value",
        "spend_groups",
        ["account_id", "label", "value", "day"],
        postgresql_include=["calls", "cost_usd"],
    )
    # A new trigger locks the table, so nothing is added to it before the end of the transaction.
    for statement, (body, tables) in _TRIGGERS.items():
        name = f"sum_spend_groups_{statement.lower()}"
        op.execute(
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$"
            f" BEGIN {body} RETURN NULL; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {name} AFTER {statement} ON daily_spend REFERENCING {tables}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {name}()"
        )
    op.execute(
        f"INSERT INTO spend_groups (file_id, account_id, day, label, value, calls, cost_usd)"
        f" {_SUMS.format(rows='daily_spend')}"
    )


def downgrade() -> None:
    for statement in _TRIGGERS:
        name = f"sum_spend_groups_{statement.lower()}"
        op.execute(f"DROP TRIGGER {name} ON daily_spend")
        op.execute(f"DROP FUNCTION {name}()")
    op.drop_table("spend_groups")
