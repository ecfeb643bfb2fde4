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


def number_rows(calls: Calls, name: str, order: Sequence[str]) -> Calls:
    """The calls with their place in this order, from 0.

    Polars windows run faster over rows that lie in their order, so there the rows are sorted;
    elsewhere a frame has no order to speak of and only the number is given.
    """
    if calls.implementation.is_polars():
        numbered: Calls = nw.from_native(calls.to_native().sort(order).with_row_index(name))
        return numbered
    return calls.with_row_index(name, order_by=order)


def keep(calls: Calls) -> Calls:
    """The calls computed once, so that six rules do not each compute them again."""
    if calls.implementation.is_duckdb():
        return _on_duckdb(calls.collect("pyarrow").to_native())
    return calls.collect().lazy()


def _on_duckdb(table: Any) -> Calls:
    import duckdb  # optional: only present where the calls are on DuckDB already

    calls: Calls = nw.from_native(duckdb.from_arrow(table))
    return calls
