"""What every step of an audit does with a frame of calls: read it, look up in it, join it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, cast

import polars as pl

from detectors.engine.lookup import NO_ROW, gather, look_up, row_finder

Calls = pl.LazyFrame
Row = dict[str, Any]

_SMALL: Final = 10_000  # rows of a table that is searched for each part of a frame
_MOST_NUMBERS: Final = 2**22  # of a table that is searched by its number
_MOST_TIED: Final = 16  # calls of one time that are compared with each other
_ROW: Final = "row_of_table"
# So few calls are computed at once, which takes less than to plan the queries that save memory.
FEW_CALLS: Final = 20_000
_engine: ContextVar[Literal["auto", "in-memory"]] = ContextVar("engine", default="auto")


@contextmanager
def planned_for(calls: int) -> Iterator[None]:
    """Compute within this context as it is best for so many calls: a few are not streamed."""
    token = _engine.set("in-memory" if calls <= FEW_CALLS else "auto")
    try:
        yield
    finally:
        _engine.reset(token)


def collect(calls: Calls) -> pl.DataFrame:
    return calls.collect(engine=_engine.get())


def collect_all(queries: Iterable[Calls]) -> list[pl.DataFrame]:
    return pl.collect_all(queries, engine=_engine.get())


def fetch(few: Calls) -> list[Row]:
    """Return the rows of a small result."""
    return collect(few).rows(named=True)


def number_labels(calls: Calls, name: str, labels: Sequence[str]) -> pl.DataFrame:
    """Number the distinct labels in order."""
    distinct = collect(calls.select(labels).unique())
    # Categories are sorted as texts.
    ordered = distinct.sort(labels).with_row_index(name)
    return ordered.with_columns(pl.col(name).cast(pl.Int32))


def join_small(calls: Calls, table: pl.DataFrame, on: Sequence[str]) -> Calls:
    """Add the columns of a small table to the calls with a row in it; no call has two.

    Each call's row is looked up, which keeps the order: calls in time order are sorted faster.
    """
    if table.height > _SMALL:
        return calls.join(table.lazy(), on=on, how="inner")
    find_rows = row_finder(table.select(on))
    found = pl.struct(on).map_batches(find_rows, return_dtype=pl.Int32, is_elementwise=True)
    known = calls.with_columns(found.alias(_ROW)).filter(pl.col(_ROW) != NO_ROW)
    looked_up = [gather(column, _ROW) for column in table.drop(on).get_columns()]
    return known.with_columns(looked_up).drop(_ROW)


def attach(calls: Calls, table: pl.DataFrame, key: str) -> Calls:
    """Add the columns of a small table with a row for each number of `key`, from 0.

    Only columns in use are looked up, and rows stay in their order.
    """
    rows = table.sort(key)
    # Rules filter by integers, and by then the floats of the other calls need no look-up.
    for kinds in (~pl.selectors.float(), pl.selectors.float()):
        columns = rows.select(kinds - pl.selectors.by_name(key)).get_columns()
        calls = calls.with_columns(look_up(column, key) for column in columns)
    return calls


def join_numbered(calls: Calls, table: Calls, key: str) -> Calls:
    """Add the columns of a table to the calls whose number it has; the others are dropped.

    Each call's row is looked up by its number, from 0, which keeps the order and takes a tenth of
    the time of a join.
    """
    if _engine.get() == "in-memory":
        return calls.join(table, on=key, how="inner", maintain_order="left")
    few = collect(table)
    most = cast("int", few[key].max() or 0)
    if most > _MOST_NUMBERS:
        return calls.join(few.lazy(), on=key, how="inner", maintain_order="left")
    rows = pl.int_range(few.height, dtype=pl.Int32, eager=True)
    places = pl.repeat(NO_ROW, most + 1, dtype=pl.Int32, eager=True).scatter(few[key], rows)
    known = calls.filter(pl.col(key) <= most).with_columns(gather(places.alias(_ROW), key))
    known = known.filter(pl.col(_ROW) != NO_ROW)
    return known.with_columns(gather(each, _ROW) for each in few.drop(key)).drop(_ROW)


def drop_duplicate_rows(calls: Calls) -> pl.DataFrame:
    """Remove duplicate rows.

    Rows that are equal in every column and have a request ID are one call, logged twice.
    """
    frame = collect(calls)
    ids = frame["request_id"]
    # Some programs count their requests; others' IDs are seen not to be sorted at once.
    if ids.is_sorted():
        # Lazily, because a column of many parts is merged to be compared with its shifted self.
        is_equal = pl.col("request_id") == pl.col("request_id").shift(1)
        if not frame.lazy().select(is_equal.any()).collect().item():
            return frame
    # Compare hashes first, which is several times faster than comparing texts.
    hashes, named = ids.hash(), ids != ""
    if _has_no_equal_ties(frame["at_us"].rechunk(), hashes.rechunk()):
        return frame
    # Counting them first takes a third of the time, and most logs have no duplicate rows.
    if hashes.filter(named).n_unique() == named.sum():
        return frame
    candidates = (named & hashes.is_duplicated()).arg_true()
    rows = frame[candidates].with_columns(candidates.alias(_ROW))
    first = rows.unique(subset=frame.columns, keep="first")
    duplicates = rows.join(first, on=_ROW, how="anti")[_ROW]
    number = pl.int_range(frame.height, dtype=pl.UInt32, eager=True)
    return frame.filter(~number.is_in(duplicates.implode()))


def _has_no_equal_ties(times: pl.Series, values: pl.Series) -> bool:
    """Check that calls of one time differ in a value; of other orders than by time, nobody knows.

    Equal rows have equal times, and few calls of a log in time order are of one time.
    """
    if not times.is_sorted() or (times == times.shift(_MOST_TIED)).any():
        return False
    for rows in range(1, _MOST_TIED):
        is_tied = times == times.shift(rows)
        if not is_tied.any():
            break
        if (is_tied & (values == values.shift(rows))).any():
            return False
    return True
