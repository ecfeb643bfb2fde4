"""Calls as Polars frames, the default and the fastest."""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, cast

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines.categories import categorize, with_equal_types
from detectors.engines.engine import Calls, Engine, Plan, Row
from detectors.engines.lookup import NO_ROW, row_finder
from detectors.engines.plans import has_planned, run_again
from detectors.engines.sorting import argsort
from detectors.engines.times import find_microseconds
from detectors.errors import UnreadableLogError

_COPIED_COLUMNS: Final = 4  # at once
_SMALL: Final = 10_000  # rows of a table that is searched for each part of a frame
_ROW: Final = "row_of_table"
_PLACE: Final = "place_before_sorting"
_NARROW_MOST: Final = 2**31 - 1
_NEAREST: Final = 8  # rows that a row is compared with
_PART_ROWS: Final = 1_000_000
# Labels that numbers replace before rules run.
_REPEATED: Final = {
    "provider",
    "model",
    "endpoint",
    "tag",
    "prefix_hash",
    "prefix_hash_16k",
    "prefix_hash_64k",
    "session_id",
}
_CATEGORIES: Final = pl.selectors.by_dtype(pl.Categorical)
_MIXED: Final = "mixed_columns"
_FACTOR: Final = 2_654_435_761  # a prime near the golden section of 32 bits


def scan(paths: str) -> Calls:
    frame = pl.scan_parquet(paths)
    try:
        frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UnreadableLogError("There are no readable Parquet files at that path.") from error
    calls: Calls = nw.from_native(frame)
    return calls


class PolarsEngine(Engine):
    has_order = True
    has_calls_in_order = True
    has_wide_integers = True

    def __init__(self) -> None:
        self._numbered: _Numbered | None = None

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        texts = rows.select(pl.selectors.string()).columns
        kinds = beside.to_native().collect_schema() if texts else {}
        categories = {n: pl.Categorical() for n in texts if kinds.get(n) == pl.Categorical}
        typed = rows.with_columns(pl.col(n).cast(kind) for n, kind in categories.items())
        placed: Calls = nw.from_native(typed.lazy())
        return placed

    def fetch(self, few: Calls) -> list[Row]:
        rows: list[Row] = self._collect(few).rows(named=True)
        return rows

    def keep(self, calls: Calls) -> Calls:
        return _lazy(self._collect(calls))

    def keep_checked(self, table: Calls, check: Callable[[Calls], Calls]) -> Calls:
        """Check a part at a time, with categories for labels that repeat in it."""
        numbered = self.with_plain_types(table).to_native()
        schema = numbered.collect_schema()
        if any(kind.is_nested() or kind == pl.Object for kind in schema.dtypes()):
            return self.keep(check(nw.from_native(numbered)))
        plain = numbered.with_columns(
            pl.col(name).cast(pl.String) for name, kind in schema.items() if kind == pl.Categorical
        )
        batches = plain.collect_batches(chunk_size=_PART_ROWS, maintain_order=True)
        parts = [self._collect(check(_lazy(_shorten(batch)))) for batch in batches]
        # A table without rows has no batches.
        parts = parts or [self._collect(check(nw.from_native(numbered)))]
        return _lazy(pl.concat(with_equal_types(parts)))

    def list_labels(self, table: Calls) -> dict[str, pl.Series]:
        labels = self._collect(nw.from_native(table.to_native().select(_CATEGORIES)))
        return {each.name: each.unique().cast(pl.String) for each in labels}

    def keep_all(self, plans: Sequence[Calls]) -> list[Calls]:
        """Compute all plans at once, so that their common parts are computed once."""
        if not self.has_few_calls:
            return [self.keep(plan) for plan in plans]
        queries = [plan.to_native() for plan in plans]
        return [_lazy(frame) for frame in pl.collect_all(queries, engine="in-memory")]

    def apply(self, name: Hashable, plan: Plan, *inputs: Calls) -> list[Calls]:
        """Reuse the plan for few calls: making it takes longer than all of their queries."""
        if not self.has_few_calls:
            return super().apply(name, plan, *inputs)
        frames = [self._collect(calls) for calls in inputs]
        return [_lazy(frame) for frame in run_again(name, plan, frames)]

    def has_planned(self, name: str) -> bool:
        return has_planned(name)

    def with_plain_types(self, table: Calls) -> Calls:
        numbered: Calls = nw.from_native(table.to_native().with_row_index("row"))
        return numbered

    def read_times(self, table: Calls) -> Calls:
        frame = self._collect(table)
        times = pl.Series("at_us", map(find_microseconds, frame["ts"]), pl.Int64)
        return _lazy(frame.with_columns(times))

    def number_rows(
        self, calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]
    ) -> Calls:
        """Number and sort the calls, because windows run faster over sorted rows.

        Of many calls, texts stay where they are until they are read, and counts take 32 bits if
        they fit.
        """
        frame = self._collect(calls)
        del calls
        rows = argsort(frame, order).alias(_PLACE)
        # Not by `select`, which copies a frame whose columns have parts of different lengths.
        columns = {column: frame[column] for column in kept}
        del frame
        texts = []
        if not self.has_few_calls:
            texts = [columns.pop(n) for n in kept if columns[n].dtype == pl.String]
        wide = [n for n, column in columns.items() if column.dtype == pl.Int64]

        def copy(name: str) -> pl.Series:
            column = columns.pop(name)
            if self.has_few_calls:
                return column.gather(rows)
            if _has_one_value(column):
                return _narrow(column[:1]).new_from_index(0, len(column))
            # Whole, because a column in many parts takes two or three times as long to gather.
            return _narrow(column).rechunk().gather(rows)

        # A few columns at a time, freed once copied: all at once would take twice the memory.
        with ThreadPoolExecutor(_COPIED_COLUMNS) as pool:
            copy_each = map if self.has_few_calls else pool.map
            copied = list(copy_each(copy, list(columns)))
        numbered = pl.DataFrame([rows, *copied]).with_row_index(name)
        counts = [n for n in wide if numbered.schema[n] == pl.Int32]
        # Texts are read for few calls, so that their parts need not be merged.
        read = [pl.col(counts).cast(pl.Int64), *(_gather(each, _PLACE) for each in texts)]
        self._numbered = _Numbered(numbered, read)
        sorted_calls: Calls = nw.from_native(self._numbered.read().select(name, *kept))
        return sorted_calls

    def join_small(self, calls: Calls, table: Calls, on: Sequence[str]) -> Calls:
        """Look up each call's row, which keeps the order: calls in time order are sorted faster."""
        rows = self._collect(table)
        if self.has_few_calls or rows.height > _SMALL:
            return super().join_small(calls, nw.from_native(rows.lazy()), on)
        find_rows = row_finder(rows.select(on))
        found = pl.struct(on).map_batches(find_rows, return_dtype=pl.Int32, is_elementwise=True)
        known = calls.to_native().with_columns(found.alias(_ROW)).filter(pl.col(_ROW) != NO_ROW)
        looked_up = [_gather(column, _ROW) for column in rows.drop(on).get_columns()]
        joined: Calls = nw.from_native(known.with_columns(looked_up).drop(_ROW))
        return joined

    @property
    def attaches_lazily(self) -> bool:
        return not self.has_few_calls

    def attach(self, calls: Calls, table: Calls, key: str) -> Calls:
        """Look up many calls by position, which keeps their order; only columns in use are."""
        if self.has_few_calls:
            return super().attach(calls, table, key)
        rows, attached = self._collect(table).sort(key), calls.to_native()
        # Rules filter by integers, and by then the floats of the other calls need no look-up.
        for kinds in (~pl.selectors.float(), pl.selectors.float()):
            columns = rows.select(kinds - pl.selectors.by_name(key)).get_columns()
            attached = attached.with_columns(_look_up(column, key) for column in columns)
        looked_up: Calls = nw.from_native(attached)
        return looked_up

    def drop_duplicate_rows(self, calls: Calls, fields: Sequence[str]) -> Calls:
        frame = self._collect(calls)
        # A `select` copies a frame whose columns have parts of different lengths.
        if frame.columns != list(fields):
            frame = frame.select(fields)
        # Compare hashes first, which is several times faster than comparing texts.
        hashes, named = frame["request_id"].hash(), frame["request_id"] != ""
        # Counting them first takes a third of the time, and most logs have no duplicate rows.
        if hashes.filter(named).n_unique() == named.sum():
            return _lazy(frame)
        candidates = (named & hashes.is_duplicated()).arg_true()
        candidate_rows = frame[candidates].with_columns(candidates.alias("row"))
        first = candidate_rows.unique(subset=fields, keep="first")
        duplicates = candidate_rows.join(first, on="row", how="anti")["row"]
        rows = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
        return _lazy(frame.filter(~rows.is_in(duplicates.implode())))

    def look_up(self, flagged: Calls, calls: Calls, names: Sequence[str]) -> Calls:
        found = self._collect(flagged)
        # Calls are sorted by number, so each is found without a search.
        if self._numbered is not None and self._numbered.has(names):
            columns = self._numbered.read(found["number"]).select(names)
        else:
            columns = calls.to_native().select(pl.col(names).gather(found["number"]))
        return _lazy(found.hstack(self._collect(nw.from_native(columns))))

    def _collect(self, calls: Calls) -> pl.DataFrame:
        """Stream many calls, which takes less memory; few take half of the time without."""
        frame: pl.DataFrame = calls.to_native().collect(
            engine="in-memory" if self.has_few_calls else "auto"
        )
        return frame

    def split_at_pauses(
        self, calls: Calls, keys: tuple[str, ...], longest_us: float
    ) -> tuple[Calls, tuple[str, ...]]:
        """Compare each call of a group with the row before, as calls are in order of number."""
        if len(keys) > 1:
            return super().split_at_pauses(calls, keys, longest_us)
        key, at = pl.col(keys), pl.col("at_us")
        is_first = (key != key.shift(1)).fill_null(value=True)
        pause = pl.when(~pl.col("is_first")).then(at - at.shift(1))
        is_new = (pl.col("pause_us") > longest_us).fill_null(value=True)
        after = at.shift(-1) - at
        is_next = (key == key.shift(-1)) & (after <= longest_us)
        split: Calls = nw.from_native(
            calls.to_native()
            .with_columns(is_first.alias("is_first"), pl.when(is_next).then(after).alias("next_us"))
            .with_columns(pause.alias("pause_us"))
            .with_columns(is_new.alias("is_new"))
            .with_columns(
                pl.col("is_new").cum_sum().cast(pl.Int64).alias("part"),
                pl.when(~pl.col("is_new")).then(pl.col("pause_us")).alias("pause_us"),
            )
            .drop("is_first")
        )
        return split, ("part",)

    def filter_near(self, calls: Calls, same: Sequence[str], most: int) -> Calls:
        """Compare a number that mixes the columns with those of the rows before.

        Calls are in order of number. Other calls rarely have the same number; these are kept.
        """
        if most > _NEAREST:
            return calls
        mixed = calls.to_native().with_columns(_mix(same))
        number = pl.col(_MIXED)
        is_near = pl.any_horizontal(number == number.shift(each) for each in range(1, most + 1))
        paired = mixed.select(number).filter(is_near)
        kept: Calls = nw.from_native(mixed.join(paired, on=_MIXED, how="semi").drop(_MIXED))
        return kept

    def pick_most_expensive(self, calls: Calls, key: str, order: Sequence[str], most: int) -> Calls:
        candidates = self.filter_expensive(calls, key, most).to_native()
        picked: Calls = nw.from_native(
            candidates.with_columns(-pl.col("cost_usd").alias("order"))
            .sort("order", *order, maintain_order=False)
            .group_by(key, maintain_order=True)
            .head(most)
            .with_columns(pl.int_range(1, pl.len() + 1).over(key).alias("rank"))
            .drop("order")
        )
        return picked

    def filter_expensive(self, calls: Calls, key: str, most: int) -> Calls:
        frame = calls.to_native()
        limits = frame.group_by(key).agg(pl.col("cost_usd").top_k(most).min().alias("least_usd"))
        expensive = frame.join(limits, on=key).filter(pl.col("cost_usd") >= pl.col("least_usd"))
        kept: Calls = nw.from_native(expensive.drop("least_usd"))
        return kept


class _Numbered(msgspec.Struct, frozen=True):
    """The calls that `number_rows` has sorted, and what makes of them the columns of the rules."""

    frame: pl.DataFrame
    columns: Sequence[pl.Expr]

    def has(self, names: Sequence[str]) -> bool:
        return set(names) <= set(self.read().collect_schema().names())

    def read(self, numbers: pl.Series | None = None) -> pl.LazyFrame:
        """Return all calls, or those with these numbers."""
        rows = self.frame.lazy()
        if numbers is not None:
            rows = rows.select(pl.all().gather(numbers))
        return rows.with_columns(self.columns)


def _look_up(values: pl.Series, key: str) -> pl.Expr:
    """Return the values at the positions in a column, or the only value that they can have."""
    if values.n_unique() == 1:
        return pl.lit(values.first(), values.dtype).alias(values.name)
    return _gather(values, key)


def _gather(values: pl.Series, key: str) -> pl.Expr:
    """Return the values at the positions in a column, with or without other rows."""
    # Positions without a sign need no check for negative ones, which takes half of the time.
    at = pl.col(key).cast(pl.UInt32, wrap_numerical=True)
    looked_up = at.map_batches(values.gather, return_dtype=values.dtype, is_elementwise=True)
    return looked_up.alias(values.name)


def _mix(names: Sequence[str]) -> pl.Expr:
    """Return a number of 32 bits that is equal for rows that are equal in these columns."""
    mixed: pl.Expr = pl.lit(0, pl.UInt32)
    for name in names:
        # Integers of 32 bits wrap around.
        low = pl.col(name).cast(pl.UInt32, wrap_numerical=True)
        mixed = (mixed + low) * pl.lit(_FACTOR, pl.UInt32)
    return mixed.alias(_MIXED)


def _has_one_value(column: pl.Series) -> bool:
    """Check for one number in all rows, such as of a count that no call has."""
    is_whole = column.dtype.is_integer() or column.dtype == pl.Boolean
    if not is_whole or column.is_empty() or column.has_nulls():
        return False
    return column.min() == column.max()


def _narrow(column: pl.Series) -> pl.Series:
    """Return integers of 64 bits with 32 if all of them fit."""
    if column.dtype != pl.Int64 or column.is_empty():
        return column
    least, most = cast("tuple[int, int]", (column.min(), column.max()))
    fits = least >= -_NARROW_MOST and most <= _NARROW_MOST
    return column.cast(pl.Int32) if fits else column


def _shorten(part: pl.DataFrame) -> pl.DataFrame:
    """Turn the labels of many calls that repeat into categories."""
    return categorize(part, _REPEATED & set(part.columns)) if part.height > _SMALL else part


def _lazy(frame: pl.DataFrame) -> Calls:
    calls: Calls = nw.from_native(frame.lazy())
    return calls
