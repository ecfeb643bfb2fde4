"""Find the spend groups without calls by their file, in time that grows with the rows changed.

Joined with the changed days, they could be compared with each of them: after the update of a
merge, far more groups have no calls than the planner expects.

Revision ID: 0032
Revises: 0031
"""

from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_SUMS = """
      SELECT file_id, account_id, day, labels.label, labels.value, sum(calls), sum(cost_usd)
      FROM {rows} CROSS JOIN LATERAL (VALUES ('route', route), ('model', model),
        ('provider', provider), ('environment', environment)) AS labels (label, value)
      GROUP BY file_id, account_id, day, labels.label, labels.value
      ORDER BY file_id, day, labels.label, labels.value
"""
_CHANGED = """(
        SELECT file_id, account_id, day, route, model, provider, environment, calls, cost_usd
        FROM added
        UNION ALL
        SELECT file_id, account_id, day, route, model, provider, environment, -calls, -cost_usd
        FROM dropped
      ) AS changed"""
_ADD = """
      INSERT INTO spend_groups (file_id, account_id, day, label, value, calls, cost_usd)
      {sums}
      ON CONFLICT (file_id, day, label, value) DO UPDATE SET
        calls = spend_groups.calls + excluded.calls,
        cost_usd = spend_groups.cost_usd + excluded.cost_usd;
"""
_DROP = """
      UPDATE spend_groups SET calls = spend_groups.calls - sums.calls,
        cost_usd = spend_groups.cost_usd - sums.cost_usd
      FROM ({sums})
        AS sums (file_id, account_id, day, label, value, calls, cost_usd)
      WHERE spend_groups.file_id = sums.file_id AND spend_groups.day = sums.day
        AND spend_groups.label = sums.label AND spend_groups.value = sums.value;
"""
_EMPTY_BY_FILE = """
      DELETE FROM spend_groups
      WHERE file_id = ANY (ARRAY(SELECT DISTINCT file_id FROM dropped)) AND calls = 0;
"""
_EMPTY_BY_DAY = """
      DELETE FROM spend_groups USING (SELECT DISTINCT file_id, day FROM dropped) AS changed
      WHERE spend_groups.file_id = changed.file_id AND spend_groups.day = changed.day
        AND spend_groups.calls = 0;
"""


def upgrade() -> None:
    _replace(_EMPTY_BY_FILE)


def downgrade() -> None:
    _replace(_EMPTY_BY_DAY)


def _replace(empty: str) -> None:
    bodies = {
        "delete": _DROP.format(sums=_SUMS.format(rows="dropped")),
        "update": _ADD.format(sums=_SUMS.format(rows=_CHANGED)),
    }
    for statement, body in bodies.items():
        op.execute(
            f"CREATE OR REPLACE FUNCTION sum_spend_groups_{statement}() RETURNS trigger"
            f" LANGUAGE plpgsql AS $$ BEGIN {body}{empty} RETURN NULL; END $$"
        )
