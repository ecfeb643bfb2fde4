"""Calls as DuckDB relations, on the caller's own connection."""

from typing import Final
from uuid import uuid4

import duckdb
import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines import times
from detectors.engines.engine import NO_LEVEL, Calls, Engine, Row
from detectors.errors import UnreadableLogError
from detectors.formats.columns import HASHES

_TYPES: Final = {
    pl.Float64: "DOUBLE",
    pl.String: "VARCHAR",
}
_DAYS: Final = "date_diff('day', DATE '1970-01-01', TRY_CAST({} AS DATE))"


def scan(paths: str) -> Calls:
    try:
        relation = duckdb.connect().read_parquet(paths)
    except duckdb.Error as error:
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error
    calls: Calls = nw.from_native(relation)
    return calls


class DuckdbEngine(Engine):
    """Runs statements on a short relation that reads nothing, the anchor.

    Every change of the catalog makes relations bind again, which is slow for long relations.
    """

    outlasts_close = False

    def __init__(self) -> None:
        self._anchor: duckdb.DuckDBPyRelation | None = None
        self._kept: list[str] = []
        self._has_own = False  # whether the calls are in a table of ours

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        relation = beside.to_native() if self._anchor is None else self._anchor
        placed: Calls = nw.from_native(relation.query("anchor", _values(rows)))
        return placed

    def fetch(self, few: Calls) -> list[Row]:
        relation = few.to_native()
        return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]

    def keep(self, calls: Calls) -> Calls:
        """Store the calls in a temporary table, which may exceed memory."""
        anchor, name = self._anchored(calls), _new_name()
        if self._has_own:
            anchor.query("anchor", f"CREATE TEMP TABLE {name} AS {calls.to_native().sql_query()}")
        else:
            # The caller's relation may have parameters, which its SQL does not contain. The name
            # must be new, or a table of the caller with that name would be read instead.
            given = _new_name()
            calls.to_native().query(given, f"CREATE TEMP TABLE {name} AS FROM {given}")
        self._has_own = True
        self._kept.append(name)
        kept: Calls = nw.from_native(anchor.query("anchor", f"FROM {name}"))
        return kept

    def close(self) -> None:
        while self._kept and self._anchor is not None:
            self._anchor.query("anchor", f"DROP TABLE {self._kept.pop()}")

    def _anchored(self, calls: Calls) -> duckdb.DuckDBPyRelation:
        """Return a relation on the same connection: the result of a statement that writes."""
        if self._anchor is None:
            name = _new_name()
            statement = f"CREATE TEMP TABLE {name} AS SELECT 1 AS one"
            self._anchor = calls.to_native().limit(0).query("anchor", statement)
            self._kept.append(name)
        return self._anchor

    def read_instants(self, table: Calls) -> Calls:
        return _with_times(table, "epoch_us(ts)")

    def read_times(self, table: Calls) -> Calls:
        read = times.text_sql("ts", _DAYS, "regexp_matches({0}, '{1}')")
        return _with_times(times.with_plain_texts(table), read)

    def join_levels(self, table: Calls) -> Calls:
        complete = f"[coalesce(level, '{NO_LEVEL}') FOR level IN {HASHES}]"
        return _replaced(table, f"array_to_string({complete}, ' ')")

    def write_digits(self, table: Calls) -> Calls:
        return _replaced(table, f"lower(hex({HASHES}))")


def _replaced(table: Calls, levels: str) -> Calls:
    native = table.to_native().project(f"* REPLACE ({levels} AS {HASHES})")
    replaced: Calls = nw.from_native(native)
    return replaced


def _with_times(table: Calls, at_us: str) -> Calls:
    timed: Calls = nw.from_native(table.to_native().project(f"*, CAST({at_us} AS BIGINT) AS at_us"))
    return timed


def _new_name() -> str:
    return f"tallystick_{uuid4().hex}"


def _values(rows: pl.DataFrame) -> str:
    """Return a query whose result is these rows."""
    names = ", ".join(f'"{name}"' for name in rows.columns)
    typed = ", ".join(
        f'CAST("{name}" AS {_TYPES.get(type(kind), "BIGINT")}) AS "{name}"'
        for name, kind in rows.schema.items()
    )
    if rows.is_empty():
        nothing = ", ".join("NULL" for _ in rows.columns)
        return f"SELECT {typed} FROM (VALUES ({nothing})) given({names}) WHERE false"  # noqa: S608 - our names
    values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows.iter_rows())
    return f"SELECT {typed} FROM (VALUES {values}) given({names})"  # noqa: S608 - quoted texts


def _literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    # The shortest text of a float, which a cast turns back into the same float.
    return f"'{value!r}'" if isinstance(value, float) else str(value)
