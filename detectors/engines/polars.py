"""Calls as Polars frames, the default and the fastest."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl

from detectors.engines.categories import categorize, compose_labels, with_equal_types
from detectors.engines.engine import NO_LEVEL, Calls, Engine, Plan, Row
from detectors.engines.lookup import NO_ROW, gather, look_up, row_finder
from detectors.engines.neighbors import filter_near, split_at_pauses
from detectors.engines.numbering import Numbered, number_rows
from detectors.engines.plans import has_planned, run_again
from detectors.engines.times import find_microseconds
from detectors.errors import UnreadableLogError
from detectors.formats.columns import HASHES

_PLANS_AT_ONCE: Final = 2
_SMALL: Final = 10_000  # rows of a table that is searched for each part of a frame
_ROW: Final = "row_of_table"
_NEAREST: Final = 8  # rows that a row is compared with
_PART_ROWS: Final = 1_000_000
_SECOND_US: Final = 1_000_000
_CATEGORIES: Final = pl.selectors.by_dtype(pl.Categorical)


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
        self._numbered: Numbered | None = None

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

    def compose(self, table: Calls, names: Iterable[str]) -> Calls:
        frame = self._collect(table)
        composed = compose_labels(frame, names)
        return table if composed is frame else _lazy(composed)

    def keep_all(self, name: Hashable, plan: Plan, *inputs: Calls) -> list[Calls]:
        """Compute two plans of many calls at a time, while the next one is made.

        One alone leaves a third of two processors idle; all together would take too much memory.
        """
        if self.has_few_calls:
            return self.apply(name, plan, *inputs)
        with ThreadPoolExecutor(_PLANS_AT_ONCE) as pool:
            return list(pool.map(self.keep, plan(*inputs)))

    def apply(self, name: Hashable, plan: Plan, *inputs: Calls) -> list[Calls]:
        """Reuse the plan for few calls: making it takes longer than all of their queries."""
        if not self.has_few_calls:
            return super().apply(name, plan, *inputs)
        frames = [self._collect(calls) for calls in inputs]
        return [_lazy(frame) for frame in run_again(name, plan, frames)]

    def has_planned(self, name: str) -> bool:
        return has_planned(name)

    def with_plain_types(self, table: Calls) -> Calls:
        plain = super().with_plain_types(table)
        numbered: Calls = nw.from_native(plain.to_native().with_row_index("row"))
        return numbered

    def join_levels(self, table: Calls) -> Calls:
        levels = pl.col(HASHES).list.eval(pl.element().fill_null(NO_LEVEL)).list.join(" ")
        joined: Calls = nw.from_native(table.to_native().with_columns(levels))
        return joined

    def write_digits(self, table: Calls) -> Calls:
        written: Calls = nw.from_native(
            table.to_native().with_columns(pl.col(HASHES).bin.encode("hex"))
        )
        return written

    def read_times(self, table: Calls) -> Calls:
        frame = self._collect(table)
        times = pl.Series("at_us", map(find_microseconds, frame["ts"]), pl.Int64)
        return _lazy(frame.with_columns(times))

    def mark_seconds(self, calls: Calls) -> Calls:
        """Mark the seconds of many calls that are in order of time."""
        frame = None if self.has_few_calls else self._collect(calls)
        if frame is None or not frame["at_us"].is_sorted():
            return calls
        second = pl.col("at_us") // _SECOND_US
        is_new = (second != second.shift(1)).fill_null(value=True)
        marked: Calls = nw.from_native(
            frame.lazy().with_columns(is_new.cast(pl.Int64).alias("is_new_second"))
        )
        return marked

    def number_rows(
        self, calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]
    ) -> Calls:
        """Number and sort the calls, because windows run faster over sorted rows."""
        frames = [self._collect(calls)]
        del calls
        self._numbered = number_rows(frames, name, order, kept, has_few_calls=self.has_few_calls)
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
        looked_up = [gather(column, _ROW) for column in rows.drop(on).get_columns()]
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
            attached = attached.with_columns(look_up(column, key) for column in columns)
        looked_up: Calls = nw.from_native(attached)
        return looked_up

    def drop_duplicate_rows(self, calls: Calls, fields: Sequence[str]) -> Calls:
        frame = self._collect(calls)
        # A `select` copies a frame whose columns have parts of different lengths.
        if frame.columns != list(fields):
            frame = frame.select(fields)
        ids = frame["request_id"]
        # Some programs count their requests; others' IDs are seen not to be sorted at once.
        if ids.is_sorted() and not _has_equal_neighbors(ids):
            return _lazy(frame)
        # Compare hashes first, which is several times faster than comparing texts.
        hashes, named = ids.hash(), ids != ""
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
        if len(keys) > 1:
            return super().split_at_pauses(calls, keys, longest_us)
        return split_at_pauses(calls, keys, longest_us), ("part",)

    def filter_near(self, calls: Calls, same: Sequence[str], most: int) -> Calls:
        return calls if most > _NEAREST else filter_near(calls, same, most)

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


def _shorten(part: pl.DataFrame) -> pl.DataFrame:
    """Turn the labels of many calls that repeat into categories."""
    return categorize(part) if part.height > _SMALL else part


def _has_equal_neighbors(column: pl.Series) -> bool:
    # Lazily, because a column of many parts is merged to be compared with its shifted self.
    is_equal = pl.col(column.name) == pl.col(column.name).shift(1)
    return bool(column.to_frame().lazy().select(is_equal.any()).collect().item())


def _lazy(frame: pl.DataFrame) -> Calls:
    calls: Calls = nw.from_native(frame.lazy())
    return calls
