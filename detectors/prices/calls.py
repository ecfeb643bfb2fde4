"""The frame that the rules read: priced calls in time order, labels turned into numbers.

Columns, none of them null. A rule may use these and no others:

* `number`: place in the order of group and time; within a group without gaps.
* `group`, `route`: numbers of the (route, provider, model) and of the route alone.
* `has_route`, `prefix`: whether tag or endpoint is given; number of the prefix hash, 0 for none.
* `at_us`: microseconds since 1970 in UTC.
* `prompt_tokens`, `completion_tokens`, `cached_tokens`, `cache_write_tokens`,
  `declared_max_tokens`: the counts of the record, 0 where absent.
* what `prices.table.price_calls` adds.
"""

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
    "group",
    "route",
    "has_route",
    "prefix",
    "at_us",
    *COUNTS,
    "cost_usd",
    "input_usd_per_token",
    "read_discount_usd",
    "write_premium_usd",
    "has_cache_read",
    "cache_minimum",
    "asks_for_caching",
    "sibling_saving_usd",
)
# Records of one group in time order; equal ones are alike in everything that a rule looks at.
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
    "cost_usd",  # calls alike in all else may have been billed at different tiers
)


def read_labels(calls: Calls) -> Calls:
    """Checked calls with their tag or endpoint as `route_label`.

    Columns that no rule looks at are left out.
    """
    tagged = nw.when(nw.col("tag") != "").then(nw.col("tag")).otherwise(nw.col("endpoint"))
    calls = calls.with_columns(tagged.alias("route_label"))
    return calls.select(*LABELS, "service_tier", "at_us", "request_id", "prefix_hash", *COUNTS)


def number_groups(labelled: Calls, engine: Engine) -> Calls:
    """Every (route, provider, model) with its number and that of its route, in order of label."""
    groups = engine.number_labels(labelled, "group", LABELS)
    routes = engine.number_labels(groups, "route", LABELS[:1])
    return engine.keep(groups.join(routes, on="route_label", how="inner"))


def price_labelled(labelled: Calls, groups: Calls, book: PriceBook, engine: Engine) -> Calls:
    """The priced calls with their numbers for labels, in no order yet.

    They are computed here, so that the records they come from can be let go before they are sorted.
    """
    prefixes = engine.number_labels(labelled, "rank", ["prefix_hash"])
    # Hashes are numbered in their own order, so that the number can stand for it in time order.
    prefix = nw.when(nw.col("prefix_hash") != "").then(nw.col("rank") + 1).otherwise(nw.lit(0))
    numbered = (
        labelled.join(groups, on=list(LABELS), how="inner")
        .join(prefixes, on="prefix_hash", how="inner")
        .with_columns(
            prefix.cast(engine.label_type).alias("prefix"),
            (nw.col("route_label") != "").cast(nw.Int8).alias("has_route"),
        )
        .drop("route_label", "prefix_hash", "rank")
    )
    # Priced last: the columns of rates are many, and texts beside them would double the memory.
    calls = price_calls(numbered, book, seen=labelled)
    calls = calls.with_columns(nw.col("has_cache_read").cast(nw.Int8))
    return engine.keep(calls.select(*dict.fromkeys([*_TIME_ORDER, *CALL_COLUMNS[1:]])))


def arrange(priced: Calls, engine: Engine) -> Calls:
    """The calls in order and numbered, as the rules read them.

    An engine that copies them may let go of what it has copied, if nobody else holds them.
    """
    held = [priced]
    del priced
    return engine.keep(engine.number_rows(held.pop(), "number", _TIME_ORDER, CALL_COLUMNS[1:]))
