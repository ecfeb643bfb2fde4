"""The frame that the rules read: priced calls in time order, with numbers instead of labels.

Columns, none of them null. A rule may use these and no others:

* `log`: number of the log, 0 unless several are audited at once; a group is of one log.
* `number`: position in the order of group and time; without gaps within a group.
* `group`, `route`: numbers of the (route, provider, model) and of the route alone.
* `has_route`, `prefix`: whether tag or endpoint is given; number of the prefix hash, 0 for none.
* `at_us`: microseconds since 1970 in UTC.
* `in_window`: whether the call is in the window that monthly dollars are projected from.
* `request_id`: the caller's ID, for the evidence; empty if absent.
* `prompt_tokens`, `completion_tokens`, `cached_tokens`, `cache_write_tokens`,
  `declared_max_tokens`: the counts of the record, 0 where absent.
* the columns that `prices.table.price_calls` adds.
"""

from collections.abc import Sequence
from typing import Final

import narwhals.stable.v2 as nw

from detectors.engines import Calls, Engine
from detectors.prices.book import PriceBook
from detectors.prices.table import price_calls

LABELS: Final = ("route_label", "provider", "model")
COUNTS: Final = (
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "declared_max_tokens",
)
CALL_COLUMNS: Final = (
    "number",
    "log",
    "group",
    "route",
    "has_route",
    "prefix",
    "at_us",
    "in_window",
    "request_id",
    *COUNTS,
    "cost_usd",
    "input_usd_per_token",
    "read_discount_usd",
    "write_premium_usd",
    "has_cache_read",
    "cache_minimum",
    "needs_cache_opt_in",
    "cheaper_saving_usd",
)
# The time order within a group; calls that are equal here are equal in every column of the rules.
_TIME_ORDER: Final = (
    "group",
    "at_us",
    "request_id",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "declared_max_tokens",
    "prefix",
    "cost_usd",  # equal calls may have been billed at different tiers
)


def read_labels(calls: Calls, keys: Sequence[str] = ()) -> Calls:
    """Add the tag or endpoint as `route_label`, and drop columns that no rule uses."""
    tagged = nw.when(nw.col("tag") != "").then(nw.col("tag")).otherwise(nw.col("endpoint"))
    calls = calls.with_columns(tagged.alias("route_label"))
    return calls.select(
        *(*keys, *LABELS, "service_tier", "at_us", "in_window"),
        *("request_id", "prefix_hash", *COUNTS),
    )


def number_groups(labelled: Calls, engine: Engine, keys: Sequence[str] = ()) -> Calls:
    """Number every (route, provider, model) and every route of a log, in order of label."""
    groups = engine.number_labels(labelled, "group", (*keys, *LABELS))
    route = [*keys, *LABELS[:1]]
    routes = engine.number_labels(groups, "route", route)
    return engine.keep(groups.join(routes, on=route, how="inner"))


def price_labelled(
    labelled: Calls, groups: Calls, book: PriceBook, engine: Engine, keys: Sequence[str] = ()
) -> Calls:
    """Price the calls and replace labels by numbers, in no order yet.

    The result is computed here, so that the records can be freed before the calls are sorted.
    """
    prefixes = engine.number_labels(labelled, "rank", ["prefix_hash"])
    # Hashes are numbered in sorted order, so that the number can replace the hash in time order.
    prefix = nw.when(nw.col("prefix_hash") != "").then(nw.col("rank") + 1).otherwise(nw.lit(0))
    numbered = (
        labelled.join(groups, on=[*keys, *LABELS], how="inner")
        .join(prefixes, on="prefix_hash", how="inner")
        .with_columns(
            prefix.cast(engine.label_type).alias("prefix"),
            (nw.col("route_label") != "").cast(nw.Int8).alias("has_route"),
        )
        .drop("route_label", "prefix_hash", "rank")
    )
    # Priced last: there are many columns of rates, and texts beside them would double the memory.
    calls = price_calls(numbered, book, engine, seen=labelled)
    if not keys:
        calls = calls.with_columns(nw.lit(0, nw.Int32).alias("log"))
    calls = calls.with_columns(nw.col("has_cache_read").cast(nw.Int8))
    return engine.keep(calls.select(*dict.fromkeys([*_TIME_ORDER, *CALL_COLUMNS[1:]])))


def arrange(priced: Calls, engine: Engine) -> Calls:
    """Sort and number the calls for the rules.

    No other reference may remain, so that an engine that copies calls can free what it has copied.
    """
    only_reference = [priced]
    del priced
    return engine.keep(
        engine.number_rows(only_reference.pop(), "number", _TIME_ORDER, CALL_COLUMNS[1:])
    )
