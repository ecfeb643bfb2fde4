"""Calls as pandas frames."""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import polars as pl

from detectors.engines.engine import NO_LEVEL, Calls, Engine, Row
from detectors.engines.times import find_microseconds
from detectors.formats.columns import HASHES


class PandasEngine(Engine):
    has_order = True

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        return nw.from_dict(rows.to_dict(as_series=False), backend="pandas").lazy()

    def fetch(self, few: Calls) -> list[Row]:
        frame: pd.DataFrame = few.collect().to_native()
        # Lists convert NumPy's numbers to Python's.
        columns = [frame[name].tolist() for name in frame.columns]
        return [dict(zip(frame.columns, row, strict=True)) for row in zip(*columns, strict=True)]

    def keep(self, calls: Calls) -> Calls:
        return calls.collect().lazy()

    def with_plain_types(self, table: Calls) -> Calls:
        """Convert Arrow columns, and Python objects to the common type of their values, if any."""
        frame = table.to_native().reset_index(drop=True)
        arrow = [name for name in frame.columns if isinstance(frame[name].dtype, pd.ArrowDtype)]
        frame = frame.assign(**{name: _from_arrow(frame[name]) for name in arrow})
        if HASHES in frame.columns and frame[HASHES].dtype == object:
            frame = frame.assign(**{HASHES: [_read_levels(value) for value in frame[HASHES]]})
        objects = [name for name in frame.columns if frame[name].dtype == object]
        common = {name: frame[name].convert_dtypes() for name in objects}
        typed = frame.assign(**common, row=range(len(frame)))
        calls: Calls = nw.from_native(typed).lazy()
        return calls

    def with_plain_values(self, checked: Calls) -> Calls:
        """Convert nullable types to NumPy's: nothing is missing, and windows fail on them."""
        frame = checked.to_native()
        kinds = {name: _plain_kind(frame[name].dtype) for name in frame.columns}
        calls: Calls = nw.from_native(frame.astype(kinds)).lazy()
        return calls

    def read_instants(self, table: Calls) -> Calls:
        frame = table.to_native()
        ts = frame["ts"]
        naive = ts if ts.dt.tz is None else ts.dt.tz_convert("UTC").dt.tz_localize(None)
        # A missing time becomes a number far outside the valid years.
        at_us = naive.to_numpy().astype("datetime64[us]").astype("int64")
        calls: Calls = nw.from_native(frame.assign(at_us=at_us)).lazy()
        return calls

    def read_times(self, table: Calls) -> Calls:
        frame = table.to_native()
        times = pd.array([find_microseconds(value) for value in frame["ts"]], dtype="Int64")
        calls: Calls = nw.from_native(frame.assign(at_us=times)).lazy()
        return calls

    def number_rows(
        self, calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]
    ) -> Calls:
        return calls.with_row_index(name, order_by=list(order)).select(name, *kept)

    def drop_duplicate_rows(self, calls: Calls, fields: Sequence[str]) -> Calls:
        frame = calls.to_native()[list(fields)]
        is_duplicate = (frame["request_id"] != "") & frame.duplicated()
        once: Calls = nw.from_native(frame[~is_duplicate]).lazy()
        return once


def _from_arrow(column: "pd.Series[Any]") -> "pd.Series[Any]":
    import pyarrow as pa  # only with Arrow columns

    return pa.chunked_array(pa.array(column.array)).to_pandas()


def _read_levels(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if not isinstance(value, str) and isinstance(value, Sequence | np.ndarray):
        return " ".join(each if isinstance(each, str) else NO_LEVEL for each in value)
    return value


def _plain_kind(kind: Any) -> str:
    if pd.api.types.is_integer_dtype(kind):
        return "int64"
    return "float64" if pd.api.types.is_float_dtype(kind) else "str"
