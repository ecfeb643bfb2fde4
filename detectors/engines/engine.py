"""The operations that differ between engines; the defaults here are plain expressions.

Results stay on the engine. Only `fetch` returns rows, for results as small as findings.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final
from unicodedata import normalize

import narwhals.stable.v2 as nw
import polars as pl

from detectors.formats.columns import HASHES

Calls = nw.LazyFrame[Any]
Row = dict[str, Any]
Plan = Callable[..., Iterable[Calls]]

NO_LEVEL: Final = "-"  # which no check accepts
_ACCENTED: Final = r"[^\x00-\x7f]"
_COMPOSED: Final = "composed"
_MOST_PARTS: Final = 2**32  # of a key


class Engine:
    """One audit's use of an engine; `close` frees what `keep` stored."""

    # Whether rows have an order, so that a row number identifies a row.
    has_order = False
    # Whether priced calls stay in order of number, so that the row before is the call before.
    has_calls_in_order = False
    # The type of the numbers that replace labels.
    label_type: type[nw.Int32 | nw.Int64] = nw.Int32
    # Whether integers of 128 bits can be summed.
    has_wide_integers = False
    # Whether what was kept can still be read after `close`, as long as something refers to it.
    outlasts_close = True
    # Whether the calls are so few that planning a query takes longer than computing it.
    has_few_calls = False

    @property
    def attaches_lazily(self) -> bool:
        """Check whether `attach` is so fast that it is repeated rather than its result kept."""
        return False

    def place(self, rows: pl.DataFrame, beside: Calls) -> Calls:
        """Copy a small frame to the engine that holds the calls, to join it with them."""
        raise NotImplementedError

    def fetch(self, few: Calls) -> list[Row]:
        """Fetch the rows of a small result."""
        raise NotImplementedError

    def keep(self, calls: Calls) -> Calls:
        """Compute the calls once, so that the rules don't each compute them again."""
        raise NotImplementedError

    def keep_checked(self, table: Calls, check: Callable[[Calls], Calls]) -> Calls:
        """Compute what `check` makes of a caller's table, whose rows it looks at one by one."""
        return self.keep(check(self.with_plain_types(table)))

    def list_labels(self, table: Calls) -> dict[str, pl.Series]:
        """Return the distinct labels of columns where that is faster than to check each row."""
        return {}

    def compose(self, table: Calls, names: Iterable[str]) -> Calls:
        """Write the texts of these columns in Unicode's composed form (NFC).

        Only texts that aren't plain ASCII are fetched, each once.
        """
        schema = table.collect_schema()
        texts = [name for name in names if isinstance(schema.get(name), nw.String)]
        if not texts:
            return table
        (found,) = self.fetch(table.select(*(_is_accented(name).sum() for name in texts)))
        for name in (name for name in texts if found[name]):
            accented = table.filter(nw.col(name).str.contains(_ACCENTED)).select(name).unique()
            labels = [row[name] for row in self.fetch(accented)]
            composed = {each: normalize("NFC", each) for each in labels}
            changed = {old: new for old, new in composed.items() if old != new}
            if changed:
                own = pl.DataFrame({name: changed.keys(), _COMPOSED: changed.values()})
                table = _replace_labels(table, self.place(own, table), name)
        return table

    def keep_all(self, name: Hashable, plan: Plan, *inputs: Calls) -> list[Calls]:
        """Compute what the plan makes of these frames, each of which may be large.

        `name` is that of `apply`. An engine may compute some of them while the plan makes others.
        """
        return [self.keep(made) for made in plan(*inputs)]

    def apply(self, name: Hashable, plan: Plan, *inputs: Calls) -> list[Calls]:
        """Return what the plan makes of these frames.

        For few calls, an engine may reuse an earlier plan of this name, so a plan must depend on
        its name and its inputs only.
        """
        return list(plan(*inputs))

    def has_planned(self, name: str) -> bool:
        """Check whether an earlier audit has made a plan with this name that can be reused."""
        return False

    def close(self) -> None:
        """Free what was stored."""

    def with_plain_types(self, table: Calls) -> Calls:
        """Convert an engine's own column types to types that expressions can check.

        If rows have an order, add their number as `row`. Hashes by level become a text, of lists
        of texts and of bytes.
        """
        kind = table.collect_schema().get(HASHES)
        if kind == nw.List(nw.String):
            return self.join_levels(table)
        return self.write_digits(table) if kind == nw.Binary else table

    def join_levels(self, table: Calls) -> Calls:
        """Join the texts of a list column, with a dash for what is missing."""
        raise NotImplementedError

    def write_digits(self, table: Calls) -> Calls:
        """Turn a column of bytes into hexadecimal digits."""
        raise NotImplementedError

    def with_plain_values(self, checked: Calls) -> Calls:
        """Convert the types of checked calls to those that windows can compute with."""
        return checked

    def read_instants(self, table: Calls) -> Calls:
        """Add `at_us` for `ts`, an instant; without a time zone it is in UTC."""
        return table.with_columns(nw.col("ts").dt.timestamp("us").cast(nw.Int64).alias("at_us"))

    def read_times(self, table: Calls) -> Calls:
        """Add `at_us` for `ts`, a text; null where it is not a time."""
        raise NotImplementedError

    def mark_seconds(self, calls: Calls) -> Calls:
        """Add `is_new_second`, 1 for the first call in each second, if that is easily seen.

        Calls without that column are returned otherwise.
        """
        return calls

    def number_labels(self, calls: Calls, name: str, labels: Sequence[str]) -> Calls:
        """Number the distinct labels in order."""
        distinct = calls.select(*labels).unique().with_row_index(name, order_by=list(labels))
        return distinct.with_columns(nw.col(name).cast(self.label_type))

    def number_rows(
        self, calls: Calls, name: str, order: Sequence[str], kept: Sequence[str]
    ) -> Calls:
        """Number the calls in this order, keeping only the columns `kept`.

        `order` begins with the group. Numbers are unique and without gaps within a group: each
        group continues where the previous group ends, so no step needs all groups at once.
        """
        group = order[0]
        sizes = calls.group_by(group).agg(nw.len().cast(nw.Int64).alias("calls"))
        up_to = nw.col("calls").cum_sum().over(order_by=group).cast(nw.Int64)
        starts = self.keep(
            sizes.with_columns(up_to.alias("start")).select(
                group, (nw.col("start") - nw.col("calls")).alias("start")
            )
        )
        position = nw.col("unit").cum_sum().over(group, order_by=list(order[1:])).cast(nw.Int64)
        return (
            calls.with_columns(nw.lit(1, nw.Int64).alias("unit"))
            .with_columns(position.alias("position"))
            .join(starts, on=group, how="inner")
            .with_columns((nw.col("start") + nw.col("position") - 1).alias(name))
            .select(name, *kept)
        )

    def join_small(self, calls: Calls, table: Calls, on: Sequence[str]) -> Calls:
        """Add the columns of a small table to the calls with a row in it; no call has two."""
        return calls.join(table, on=list(on), how="inner")

    def attach(self, calls: Calls, table: Calls, key: str) -> Calls:
        """Add the columns of a small table with a row for each number of `key`, from 0."""
        return calls.join(table, on=key, how="inner")

    def drop_duplicate_rows(self, calls: Calls, fields: Sequence[str]) -> Calls:
        """Remove duplicate rows.

        Rows that are equal in every field and have a request ID are one call, logged twice.
        """
        named = calls.filter(nw.col("request_id") != "").select(*fields)
        # Grouping leaves one row of each; a window would have to sort all rows.
        once = named.group_by(*fields).agg(nw.len().alias("rows")).select(*fields)
        others = calls.filter(nw.col("request_id") == "").select(*fields)
        return nw.concat([others, once], how="vertical")

    def look_up(self, flagged: Calls, calls: Calls, names: Sequence[str]) -> Calls:
        """Add these columns to the flagged calls."""
        return flagged.join(calls.select("number", *names), on="number", how="inner")

    def split_at_pauses(
        self, calls: Calls, keys: tuple[str, ...], longest_us: float
    ) -> tuple[Calls, tuple[str, ...]]:
        """Split the calls of each key, in order of `number`, at pauses longer than this.

        Adds `pause_us`, null for the first call of a part, `next_us`, the pause after a call, null
        for the last call of a part, and `part`; the result names the columns that identify a part.
        """
        before = nw.col("at_us").shift(1).over(*keys, order_by="number")
        after = nw.col("at_us").shift(-1).over(*keys, order_by="number") - nw.col("at_us")
        next_us = nw.when(nw.col("next_us") <= longest_us).then(nw.col("next_us"))
        part = nw.col("is_new").cum_sum().over(*keys, order_by="number").cast(nw.Int64)
        within = nw.when(nw.col("is_new") == 0).then(nw.col("pause_us"))
        split = (
            calls.with_columns((nw.col("at_us") - before).alias("pause_us"), after.alias("next_us"))
            .with_columns(
                next_us.alias("next_us"),
                (nw.col("pause_us") > longest_us)
                .fill_null(value=False)
                .cast(nw.Int32)
                .alias("is_new"),
            )
            .with_columns(part.alias("part"), within.alias("pause_us"))
        )
        if len(keys) > 1:
            return split, (*keys, "part")
        # One key instead of two halves the time of all that follows.
        part = nw.col(*keys).cast(nw.Int64) * _MOST_PARTS + nw.col("part")
        return split.with_columns(part.alias("part")), ("part",)

    def filter_near(self, calls: Calls, same: Sequence[str], most: int) -> Calls:
        """Drop calls that have no pair among the calls that are equal in these columns.

        A pair is two calls with at most `most - 1` of the given calls between them. An engine may
        keep calls without a pair, where finding them takes longer than it saves.
        """
        return calls

    def filter_expensive(self, calls: Calls, key: str, most: int) -> Calls:
        """Drop calls that `pick_most_expensive` would not return, if they can be found easily."""
        return calls

    def pick_most_expensive(self, calls: Calls, key: str, order: Sequence[str], most: int) -> Calls:
        """Return at most `most` calls of each key, by `cost_usd` and then by `order`, as `rank`."""
        rank = nw.col("unit").cum_sum().over(key, order_by=["negative_usd", *order])
        return (
            calls.with_columns(nw.lit(1, nw.Int64).alias("unit"))
            .with_columns((nw.col("cost_usd") * -1.0).alias("negative_usd"))
            .with_columns(rank.cast(nw.Int64).alias("rank"))
            .filter(nw.col("rank") <= most)
            .drop("unit", "negative_usd")
        )


def _is_accented(name: str) -> nw.Expr:
    """Return 1 for texts with other characters than ASCII has."""
    is_accented = nw.col(name).str.contains(_ACCENTED).fill_null(value=False)
    return is_accented.cast(nw.Int64).alias(name)


def _replace_labels(table: Calls, composed: Calls, name: str) -> Calls:
    columns = table.collect_schema().names()
    new = nw.when(~nw.col(_COMPOSED).is_null()).then(nw.col(_COMPOSED)).otherwise(nw.col(name))
    return table.join(composed, on=name, how="left").with_columns(new.alias(name)).select(*columns)
