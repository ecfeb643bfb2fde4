"""The day in its account's time zone of each line of spend, as its distance from the UTC day.

A constant default fills the column without a rewrite, and lines of the previous release, which
doesn't know it, count by UTC day. The summaries have it in their keys, so their triggers change.

Revision ID: 0053
Revises: 0052
"""

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None

ACCEPTED_LOCKS = {
    "ban-drop-constraint": "only a primary key, which the index made before replaces in the same"
    " statement; no release names it",
}
_LINES: Final = ("daily_spend", "plan_usage")
_SUMMARIES: Final = ("spend_days", "spend_groups")
_KEYS: Final = {
    "spend_days": ["file_id", "day"],
    "spend_groups": ["file_id", "day", "label", "value"],
}
_LABELS: Final = ["route", "provider", "model", "environment"]
_SUMS: Final = ["calls", "cost_usd"]
# Table, columns, included columns, and the names of the indexes before and after.
_INDEXES: Final = (
    ("daily_spend", ["account_id", "day"], [*_LABELS, *_SUMS], "account_labels", "local_labels"),
    ("daily_spend", ["account_id", "route", "day"], _SUMS, "account_route", "local_route"),
    ("spend_days", ["account_id", "day"], ["cost_usd"], "account", "local"),
    ("spend_groups", ["account_id", "label", "day"], ["value", *_SUMS], "account", "local"),
    ("spend_groups", ["account_id", "label", "value", "day"], _SUMS, "value", "local_value"),
)
# The zone in the name of a file's prices, which says by whose days its spend is summed.
_ZONE: Final = "coalesce(split_part(priced_with, '|', 3), '')"
_ZONES: Final = {
    "ix_call_files_zone": "replaced_at IS NULL",
    "ix_call_files_purged_zone": "purged_at IS NOT NULL",
}


def upgrade() -> None:
    for table in (*_LINES, *_SUMMARIES):
        op.execute(
            f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS day_shift smallint NOT NULL DEFAULT 0"
        )
    with op.get_context().autocommit_block():
        for table in _SUMMARIES:
            _create_index(_key_index(table), table, [*_KEYS[table], "day_shift"], unique=True)
    # A transaction that reads a table may have this tried again, so that pages have the former
    # indexes until then.
    for table in _SUMMARIES:
        _replace_key(table)
        _replace_functions(table, is_shifted=True)
    with op.get_context().autocommit_block():
        for table, columns, included, old, new in _INDEXES:
            _replace_index(table, columns, ["day_shift", *included], old, new)
        for name, condition in _ZONES.items():
            by_zone = ["account_id", sa.text(_ZONE)]
            _create_index(name, "call_files", by_zone, postgresql_where=sa.text(condition))


def downgrade() -> None:
    with op.get_context().autocommit_block():
        # Each commits at once, so that what is imported from then on has days in UTC alone.
        op.execute(f"CREATE OR REPLACE FUNCTION {_IN_UTC}")
        for table in _LINES:
            op.execute(
                f"CREATE OR REPLACE TRIGGER count_in_utc BEFORE INSERT OR UPDATE ON {table}"
                " FOR EACH ROW WHEN (NEW.day_shift <> 0) EXECUTE FUNCTION count_in_utc()"
            )
    for table in _LINES:
        op.execute(f"UPDATE {table} SET day_shift = 0 WHERE day_shift <> 0")  # noqa: S608
    with op.get_context().autocommit_block():
        for table in _SUMMARIES:
            _create_index(_key_index(table), table, _KEYS[table], unique=True)
        for name in _ZONES:
            op.drop_index(name, if_exists=True, postgresql_concurrently=True)
    for table in _SUMMARIES:
        _replace_key(table)
        _replace_functions(table, is_shifted=False)
    with op.get_context().autocommit_block():
        for table, columns, included, old, new in _INDEXES:
            _replace_index(table, columns, included, new, old)
    op.execute("DROP FUNCTION count_in_utc() CASCADE")
    for table in (*_LINES, *_SUMMARIES):
        op.drop_column(table, "day_shift")
    # Files that are summed by other days are to be summed again.
    op.execute(f"UPDATE call_files SET priced_with = NULL, rates = NULL WHERE {_ZONE} <> ''")  # noqa: S608


def _replace_index(table: str, columns: list[str], included: list[str], old: str, new: str) -> None:
    _create_index(f"ix_{table}_{new}", table, columns, postgresql_include=included)
    op.drop_index(f"ix_{table}_{old}", if_exists=True, postgresql_concurrently=True)


def _create_index(name: str, table: str, columns: list[Any], **options: Any) -> None:
    """Create an index, or go on with that of an earlier try, unless that was interrupted."""
    is_valid = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(:name)"
    if op.get_context().as_sql or not op.get_bind().scalar(sa.text(is_valid), {"name": name}):
        op.drop_index(name, if_exists=True, postgresql_concurrently=True)
    op.create_index(
        name, table, columns, if_not_exists=True, postgresql_concurrently=True, **options
    )


def _key_index(table: str) -> str:
    return f"uq_{table}_key"


def _replace_key(table: str) -> None:
    op.execute(
        f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS pk_{table},"
        f" ADD CONSTRAINT pk_{table} PRIMARY KEY USING INDEX {_key_index(table)}"
    )


_IN_UTC: Final = """count_in_utc() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  NEW.day_shift := 0; RETURN NEW;
END $$"""
_LATERAL: Final = """CROSS JOIN LATERAL (VALUES ('route', route), ('model', model),
          ('provider', provider), ('environment', environment)) AS labels (label, value)"""
_CHANGED: Final = """(
        SELECT file_id, account_id, {day}, route, model, provider, environment, calls, cost_usd
        FROM added
        UNION ALL
        SELECT file_id, account_id, {day}, route, model, provider, environment, -calls, -cost_usd
        FROM dropped
      ) AS changed"""
_ADD: Final = """
      INSERT INTO {table} (file_id, account_id, {names}, calls, cost_usd)
      SELECT file_id, account_id, {names}, sum(calls), sum(cost_usd) FROM {rows}
      GROUP BY file_id, account_id, {names} ORDER BY file_id, {names}
      ON CONFLICT (file_id, {names}) DO UPDATE SET
        calls = {table}.calls + excluded.calls,
        cost_usd = {table}.cost_usd + excluded.cost_usd;
"""
_DROP: Final = """
      UPDATE {table} SET calls = {table}.calls - sums.calls,
        cost_usd = {table}.cost_usd - sums.cost_usd
      FROM (
        SELECT file_id, {names}, sum(calls), sum(cost_usd) FROM {rows}
        {where} GROUP BY file_id, {names} ORDER BY file_id, {names}
      ) AS sums (file_id, {names}, calls, cost_usd)
      WHERE {is_same};
"""
# A day may have lines without calls, so only its lines say whether it is empty.
_EMPTY: Final = {
    "spend_days": """
      DELETE FROM spend_days USING (SELECT DISTINCT file_id, {day} FROM dropped) AS changed
      WHERE {is_changed} AND NOT EXISTS (SELECT FROM daily_spend WHERE {is_of_line});
""",
    "spend_groups": """
      DELETE FROM spend_groups
      WHERE file_id = ANY (ARRAY(SELECT DISTINCT file_id FROM dropped)) AND calls = 0;
""",
}
_GONE: Final = """
      gone := ARRAY(
        SELECT DISTINCT file_id FROM dropped EXCEPT
        SELECT file_id FROM daily_spend WHERE file_id IN (SELECT file_id FROM dropped)
      );
      DELETE FROM {table} WHERE file_id = ANY (gone);
      IF EXISTS (SELECT FROM dropped WHERE file_id <> ALL (gone)) THEN {rest} END IF;
"""


def _replace_functions(table: str, *, is_shifted: bool) -> None:
    """Write what follows each statement; the rows before and after it are tables."""
    days = ["day", "day_shift"] if is_shifted else ["day"]
    labels = [f"labels.{name}" for name in ("label", "value")] if table == "spend_groups" else []
    columns = [name.removeprefix("labels.") for name in (*days, *labels)]
    names, day, lateral = ", ".join(columns), ", ".join(days), _LATERAL if labels else ""
    given = {
        "table": table,
        "names": names,
        "day": day,
        "is_same": _match(table, "sums", ["file_id", *columns]),
        "is_changed": _match(table, "changed", ["file_id", *days]),
        "is_of_line": _match("daily_spend", "changed", ["file_id", *days]),
    }
    empty = _EMPTY[table].format(**given)
    kept = "WHERE file_id <> ALL (gone)"
    rest = _DROP.format(rows=f"dropped {lateral}", where=kept, **given) + empty
    changed = f"{_CHANGED.format(day=day)} {lateral}"
    bodies = {
        "insert": f"BEGIN {_ADD.format(rows=f'added {lateral}', **given)}",
        "update": f"BEGIN {_ADD.format(rows=changed, **given)} {empty}",
        "delete": f"DECLARE gone text[]; BEGIN {_GONE.format(table=table, rest=rest)}",
    }
    for statement, body in bodies.items():
        op.execute(
            f"CREATE OR REPLACE FUNCTION sum_{table}_{statement}() RETURNS trigger"
            f" LANGUAGE plpgsql AS $$ {body} RETURN NULL; END $$"
        )


def _match(left: str, right: str, names: list[str]) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in names)
