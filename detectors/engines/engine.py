"""What an engine does in a way of its own; what is written here are plain expressions.

What a method computes stays on the engine. Only `fetch` brings rows here, and is for results that
are as few as findings are.
"""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

Calls = nw.LazyFrame[Any]
Row = dict[str, Any]


class Engine:
    """One audit's use of an engine; `close` gives back what `keep` took."""

    # Whether rows have an order, so that a row can be told by its number.
    has_order = False
    # Of the numbers that stand for labels.
    label_type: type[nw.Int32 | nw.Int64] = nw.Int32

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        """A small frame on the engine that holds the calls, ready to be joined to them."""
        raise NotImplementedError

    def fetch(self, few: Calls) -> list[Row]:
        """The rows of a small result."""
        raise NotImplementedError

    def keep(self, calls: Calls) -> Calls:
        """The calls computed once, so that six rules do not each compute them again."""
        raise NotImplementedError

    def keep_all(self, plans: Sequence[Calls]) -> list[Calls]:
        return [self.keep(plan) for plan in plans]

    def close(self) -> None:
        """Give back what was kept."""

    def settle(self, table: Calls) -> Calls:
        """The table with columns that expressions can judge, as an engine's own types may not be.

        Where rows have an order, their number is added as `row`.
        """
        return table

    def read_instants(self, table: Calls) -> Calls:
        """The table with `at_us` for its `ts`, an instant, in UTC where it has no zone."""
        return table.with_columns(nw.col("ts").dt.timestamp("us").cast(nw.Int64).alias("at_us"))

    def read_times(self, table: Calls) -> Calls:
        """The table with `at_us` for its `ts`, a text: null where that is no time."""
        raise NotImplementedError

    def number_labels(self, calls: Calls, name: str, labels: Sequence[str]) -> Calls:
        """The distinct labels, numbered in their order."""
        distinct = calls.select(*labels).unique().with_row_index(name, order_by=list(labels))
        return distinct.with_columns(nw.col(name).cast(self.label_type))

    def number_rows(
        self, calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]
    ) -> Calls:
        """The calls, of their columns only those kept, with a number in this order.

        `order` begins with the group. No two calls have one number, and within a group there are no
        gaps: each group counts on from where the group before it ends, so that groups need not
        be looked through together.
        """
        group = order[0]
        sizes = calls.group_by(group).agg(nw.len().cast(nw.Int64).alias("calls"))
        up_to = nw.col("calls").cum_sum().over(order_by=group).cast(nw.Int64)
        starts = self.keep(
            sizes.with_columns(up_to.alias("start")).select(
                group, (nw.col("start") - nw.col("calls")).alias("start")
            )
        )
        place = nw.col("one").cum_sum().over(group, order_by=list(order[1:])).cast(nw.Int64)
        return (
            calls.with_columns(nw.lit(1, nw.Int64).alias("one"))
            .with_columns(place.alias("place"))
            .join(starts, on=group, how="inner")
            .with_columns((nw.col("start") + nw.col("place") - 1).alias(name))
            .select(name, *kept)
        )

    def drop_duplicate_rows(self, calls: Calls, fields: Sequence[str]) -> Calls:
        """The calls without log echoes.

        Rows equal in every field, with a non-empty request id, are one call logged twice.
        """
        named = calls.filter(nw.col("request_id") != "").select(*fields)
        # One row a group of equal ones; a window over them would have to sort all.
        once = named.group_by(*fields).agg(nw.len().alias("rows")).select(*fields)
        others = calls.filter(nw.col("request_id") == "").select(*fields)
        return nw.concat([others, once], how="vertical")

    def look_up(self, flagged: Calls, calls: Calls, names: Sequence[str]) -> Calls:
        """The flagged calls with these columns of theirs."""
        return flagged.join(calls.select("number", *names), on="number", how="inner")

    def pick_dearest(self, calls: Calls, key: str, order: Sequence[str], most: int) -> Calls:
        """So many calls of each key, the dearest by `cost_usd` first, then by this order."""
        place = nw.col("one").cum_sum().over(key, order_by=["dearness", *order])
        return (
            calls.with_columns(nw.lit(1, nw.Int64).alias("one"))
            .with_columns((nw.col("cost_usd") * -1.0).alias("dearness"))
            .with_columns(place.cast(nw.Int64).alias("place"))
            .filter(nw.col("place") <= most)
            .drop("one", "dearness")
        )
