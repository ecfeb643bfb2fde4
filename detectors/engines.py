"""What differs between dataframe engines, so that pricing and rules need not know their own.

Polars is the default and the fastest. pandas and DuckDB frames are tested too.
"""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from detectors.errors import DetectorError

Calls = nw.LazyFrame[Any]


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
        frame = calls.to_native().select(list(dict.fromkeys([*order, *kept]))).collect()
        numbered: Calls = nw.from_native(
            _sorted(frame, order).select(kept).with_row_index(name).lazy()
        )
        return numbered
    return calls.with_row_index(name, order_by=order).select(name, *kept)


def _sorted(frame: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """Sort by the first two columns, and by the others only the rows that are still tied.

    Two integers sort several times faster than a row of integers and texts, and ties are few.
    """
    leading = list(order[:2])
    keys = frame.lazy().select(leading).with_row_index("row").sort(leading)
    same = pl.all_horizontal(pl.col(key) == pl.col(key).shift(1) for key in leading)
    same_as_last = same.fill_null(value=False).alias("same")
    rows = keys.select("row", same_as_last).collect()
    tied = rows.select(pl.col("same") | pl.col("same").shift(-1, fill_value=False)).to_series()
    places = tied.arg_true()
    at = rows["row"]
    if not places.is_empty():
        ties = frame.select(order).with_row_index("row")[at.gather(places)]
        at = at.scatter(places, ties.sort(order)["row"])
    return frame[at]


def keep(calls: Calls) -> Calls:
    """The calls computed once, so that six rules do not each compute them again."""
    if calls.implementation.is_duckdb():
        return _on_duckdb(calls.collect("pyarrow").to_native())
    return calls.collect().lazy()


def _on_duckdb(table: Any) -> Calls:
    import duckdb  # optional: only present where the calls are on DuckDB already

    calls: Calls = nw.from_native(duckdb.from_arrow(table))
    return calls
