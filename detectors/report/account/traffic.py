"""When the calls of an account came and how long they took, by route, provider and model."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from math import log
from typing import Final

import narwhals.stable.v2 as nw

from detectors.contract import HOURS, LATENCY_STEP, Traffic, TrafficWindow
from detectors.engines import Calls, Engine
from detectors.report.counting.projection import EPOCH

# So many groups have a page with hours and latencies: those with the most calls.
MOST_GROUPS: Final = 2_000
_HOUR_US: Final = 3_600_000_000
_KEY: Final = ("route", "provider", "model")
_LATENCY: Final = "latency_ms"
_NO_KEY: Final = -1  # of a call without a latency
_STEPS: Final = 1_000  # more than the steps up to the longest latency of the contract


def sum_traffic(calls: Calls, engine: Engine, most: int = MOST_GROUPS) -> TrafficWindow | None:
    """Count checked calls by hour of day and by latency, or return None without calls.

    Unpriced calls count, too. At most `most` groups are returned, those with the most calls; ties
    by name.
    """
    groups, keyed = _number(calls, engine)
    names = {row["group"]: row for row in engine.fetch(groups)}
    if not names:
        return None
    latencies = _count_latencies(keyed, engine)
    traffic = [
        Traffic(
            **{name: names[group][name] for name in _KEY},
            calls=sum(hours),
            hours=tuple(hours),
            latencies=latencies.get(group, {}),
        )
        for group, hours in _count_hours(keyed, engine).items()
    ]
    traffic.sort(key=lambda each: (-each.calls, each.route, each.provider, each.model))
    first, last = _find_ends(calls, engine)
    return TrafficWindow(first_call=first, last_call=last, traffic=traffic[:most])


def _number(calls: Calls, engine: Engine) -> tuple[Calls, Calls]:
    """Return the groups with their numbers, and the keys of the calls that are counted.

    Numbers are joined first, because grouping by three texts takes several times as long. A key is
    the group's number and an hour, or a step of latency: one key is faster than two.
    """
    route = nw.when(nw.col("tag") != "").then(nw.col("tag")).otherwise(nw.col("endpoint"))
    latency = [name for name in calls.collect_schema().names() if name == _LATENCY]
    labelled = calls.select(route.alias("route"), *_KEY[1:], "at_us", *latency)
    numbers = engine.number_labels(labelled, "group", _KEY)
    groups = engine.keep(numbers.with_columns(nw.col("group").cast(nw.Int64)))
    numbered = engine.join_small(labelled, groups, _KEY)
    keys = [_key(nw.col("at_us") // _HOUR_US % HOURS, HOURS).alias("hour")]
    if latency:
        step = _key(_step(nw.col(_LATENCY)), _STEPS)
        timed = nw.when(nw.col(_LATENCY) >= 0).then(step).otherwise(nw.lit(_NO_KEY))
        keys.append(timed.alias("step"))
    return groups, engine.keep(numbered.select(*keys))


def _key(value: nw.Expr, values: int) -> nw.Expr:
    return nw.col("group") * values + value


def _step(latency: nw.Expr) -> nw.Expr:
    # Below a millisecond, logarithms are negative; such calls are in the first step.
    at_least_one = nw.when(latency >= 1).then(latency).otherwise(nw.lit(1.0))
    return (at_least_one.log() * (1 / log(LATENCY_STEP))).floor().cast(nw.Int64)


def _count_hours(keyed: Calls, engine: Engine) -> dict[int, list[int]]:
    """Return the calls of each group by hour."""
    found: dict[int, list[int]] = defaultdict(lambda: [0] * HOURS)
    for group, at, calls in _count(keyed, "hour", HOURS, engine):
        found[group][at] = calls
    return found


def _count_latencies(keyed: Calls, engine: Engine) -> dict[int, dict[int, int]]:
    """Return the calls of each group by step of latency; a call without a latency has none."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    if "step" in keyed.collect_schema().names():
        for group, at, calls in _count(keyed, "step", _STEPS, engine):
            found[group][at] = calls
    return found


def _count(keyed: Calls, name: str, values: int, engine: Engine) -> Iterator[tuple[int, int, int]]:
    """Yield each group and value with its calls."""
    for row in engine.fetch(keyed.group_by(name).agg(nw.len().alias("calls"))):
        if row[name] != _NO_KEY:
            yield *divmod(int(row[name]), values), row["calls"]


def _find_ends(calls: Calls, engine: Engine) -> tuple[datetime, datetime]:
    at = nw.col("at_us")
    (row,) = engine.fetch(calls.select(at.min().alias("first"), at.max().alias("last")))
    first, last = (EPOCH + timedelta(microseconds=int(row[name])) for name in ("first", "last"))
    return first, last
