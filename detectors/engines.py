"""What differs between dataframe engines, so that pricing and rules need not know their own.

Polars is the default and the fastest. pandas and DuckDB frames are tested too.
"""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from detectors.errors import DetectorError

Calls = nw.LazyFrame[Any]

_LARGEST = 2**63 - 1


class UnknownEngineError(DetectorError):
    """The frame belongs to an engine that audits do not run on."""

    def __init__(self, engine: str) -> None:
        super().__init__(f"audits run on Polars, pandas and DuckDB frames, not on {engine}")


def place_beside(calls: Calls, rows: pl.DataFrame) -> Calls:
    """A small frame on the engine that holds the calls, ready to be joined to them."""
    if calls.implementation.is_polars():
        beside: Calls = nw.from_native(rows.lazy())
        return beside
    if calls.implementation.is_pandas():
        return nw.from_dict(rows.to_dict(as_series=False), backend="pandas").lazy()
    if calls.implementation.is_duckdb():
        return _on_duckdb(rows.to_arrow())
    raise UnknownEngineError(calls.implementation.name)


def number_rows(calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]) -> Calls:
    """The calls, of their columns only those kept, with their place in this order from 0.

    Polars windows run faster over rows that lie in their order, so there the rows are sorted;
    elsewhere a frame has no order to speak of and only the number is given.
    """
    if calls.implementation.is_polars():
        frame = calls.to_native().collect()
        rows = pl.all().gather(_argsort(frame, order))
        numbered: Calls = nw.from_native(
            frame.lazy().select(kept).select(rows).with_row_index(name)
        )
        return numbered
    return calls.with_row_index(name, order_by=order).select(name, *kept)


def _argsort(frame: pl.DataFrame, order: Sequence[str]) -> pl.Series:
    """Where each row of the sorted frame comes from.

    The first two columns, integers, are sorted as one, and only rows that are still tied by the
    others: that is several times faster than sorting by all of them, texts included.
    """
    packed = _pack(frame, order[0], order[1])
    if packed is None:
        return frame.lazy().select(pl.arg_sort_by(order)).collect().to_series()
    keys = frame.lazy().select(packed.alias("key")).with_row_index("row").sort("key").collect()
    same = pl.col("key") == pl.col("key").shift(1)
    tied = (same | same.shift(-1)).fill_null(value=False).arg_true()
    places = keys.lazy().select(tied).collect().to_series()
    if places.is_empty():
        return keys["row"]
    rows = keys["row"].gather(places)
    ties = frame.lazy().select(pl.col(order).gather(rows)).select(pl.arg_sort_by(order))
    return keys["row"].scatter(places, rows.gather(ties.collect().to_series()))


def _pack(frame: pl.DataFrame, major: str, minor: str) -> pl.Expr | None:
    """Two integer columns as one that sorts as they do; none where 64 bits do not hold it."""
    if frame.is_empty():
        return None
    limits = frame.lazy().select(
        pl.col(major).max().alias("major"), pl.col(minor).min().alias("low"), pl.col(minor).max()
    )
    highest, low, high = limits.collect().row(0)
    span = high - low + 1
    if (highest + 1) * span > _LARGEST:
        return None
    packed: pl.Expr = pl.col(major).cast(pl.Int64) * span + (pl.col(minor) - low)
    return packed


def keep(calls: Calls) -> Calls:
    """The calls computed once, so that six rules do not each compute them again."""
    if calls.implementation.is_duckdb():
        return _on_duckdb(calls.collect("pyarrow").to_native())
    return calls.collect().lazy()


def _on_duckdb(table: Any) -> Calls:
    import duckdb  # optional: only present where the calls are on DuckDB already

    calls: Calls = nw.from_native(duckdb.from_arrow(table))
    return calls
