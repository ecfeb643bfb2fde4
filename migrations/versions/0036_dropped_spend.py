"""Delete the sums of a file that has lost all its spend, without setting them to zero first.

The update took four fifths of the time of a merge's DELETE, and left a second dead row in each
index of `spend_groups` and `spend_days`.

Revision ID: 0036
Revises: 0035
"""

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_GONE = """
    gone := ARRAY(
      SELECT DISTINCT file_id FROM dropped EXCEPT
      SELECT file_id FROM daily_spend WHERE file_id IN (SELECT file_id FROM dropped)
    );
    DELETE FROM {table} WHERE file_id = ANY (gone);
"""
_GROUPS = """
      UPDATE spend_groups SET calls = spend_groups.calls - sums.calls,
        cost_usd = spend_groups.cost_usd - sums.cost_usd
      FROM (
        SELECT file_id, day, labels.label, labels.value, sum(calls), sum(cost_usd)
        FROM dropped CROSS JOIN LATERAL (VALUES ('route', route), ('model', model),
          ('provider', provider), ('environment', environment)) AS labels (label, value)
        {where}
        GROUP BY file_id, day, labels.label, labels.value
        ORDER BY file_id, day, labels.label, labels.value
      ) AS sums (file_id, day, label, value, calls, cost_usd)
      WHERE spend_groups.file_id = sums.file_id AND spend_groups.day = sums.day
        AND spend_groups.label = sums.label AND spend_groups.value = sums.value;
      DELETE FROM spend_groups
      WHERE file_id = ANY (ARRAY(SELECT DISTINCT file_id FROM dropped)) AND calls = 0;
"""
_DAYS = """
      UPDATE spend_days SET calls = spend_days.calls - sums.calls,
        cost_usd = spend_days.cost_usd - sums.cost_usd
      FROM (
        SELECT file_id, day, sum(calls), sum(cost_usd) FROM dropped
        {where} GROUP BY file_id, day ORDER BY file_id, day
      ) AS sums (file_id, day, calls, cost_usd)
      WHERE spend_days.file_id = sums.file_id AND spend_days.day = sums.day;
      DELETE FROM spend_days USING (SELECT DISTINCT file_id, day FROM dropped) AS changed
      WHERE spend_days.file_id = changed.file_id AND spend_days.day = changed.day
        AND NOT EXISTS (SELECT FROM daily_spend
          WHERE file_id = changed.file_id AND day = changed.day);
"""
_BODIES = {"spend_groups": _GROUPS, "spend_days": _DAYS}


def upgrade() -> None:
    for table, body in _BODIES.items():
        # Lines that a file still has are rare: no code deletes a part of them.
        rest = body.format(where="WHERE file_id <> ALL (gone)")
        _replace(
            table,
            f"DECLARE gone text[]; BEGIN {_GONE.format(table=table)}"
            f" IF EXISTS (SELECT FROM dropped WHERE file_id <> ALL (gone)) THEN {rest} END IF;",
        )


def downgrade() -> None:
    for table, body in _BODIES.items():
        _replace(table, f"BEGIN {body.format(where='')}")


def _replace(table: str, body: str) -> None:
    op.execute(
        f"CREATE OR REPLACE FUNCTION sum_{table}_delete() RETURNS trigger"
        f" LANGUAGE plpgsql AS $$ {body} RETURN NULL; END $$"
    )
