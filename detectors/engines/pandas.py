"""Calls as pandas frames."""

from collections.abc import Sequence

import narwhals.stable.v2 as nw
import pandas as pd  # type: ignore[import-untyped]
import polars as pl

from detectors.engines.engine import Calls, Engine, Row
from detectors.engines.times import find_microseconds


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
        """Convert columns of Python objects to the common type of their values, if any."""
        frame = table.to_native()
        objects = [name for name in frame.columns if frame[name].dtype == object]
        common = {name: frame[name].convert_dtypes() for name in objects}
        typed = frame.assign(**common, row=range(len(frame)))
        calls: Calls = nw.from_native(typed).lazy()
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
