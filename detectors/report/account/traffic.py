"""When the calls of an account came and how long they took, by route, provider and model."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import log
from typing import Final, cast

import polars as pl

from detectors.contract import HOURS, LATENCY_STEP, Traffic, TrafficWindow
from detectors.engine import Calls, join_small, number_labels
from detectors.report.counting.projection import EPOCH

# So many groups have a page with hours and latencies: those with the most calls.
MOST_GROUPS: Final = 2_000
_HOUR_US: Final = 3_600_000_000
_KEY: Final = ("route", "provider", "model")
_SLOTS: Final = {**dict.fromkeys(_KEY, pl.String), "slot": pl.Int32, "calls": pl.Int64}
_Group = tuple[str, str, str]
_LATENCY: Final = "latency_ms"
_NO_KEY: Final = -1  # of a call without a latency
_STEPS: Final = 1_000  # more than the steps up to the longest latency of the contract


def count_slots(calls: Calls) -> pl.DataFrame:
    """Count the calls of each route, provider and model by slot.

    A slot is an hour of the day, or `HOURS` more than a step of latency, which not all calls have.
    """
    # Numbers are joined first, because grouping by three texts takes several times as long. A key
    # is the group's number and an hour, or a step of latency: one key is faster than two.
    route = pl.when(pl.col("tag") != "").then(pl.col("tag")).otherwise(pl.col("endpoint"))
    latency = [name for name in calls.collect_schema().names() if name == _LATENCY]
    labelled = calls.select(route.alias("route"), *_KEY[1:], "at_us", *latency)
    groups = number_labels(labelled, "group", _KEY).with_columns(pl.col("group").cast(pl.Int64))
    numbered = join_small(labelled, groups, _KEY)
    keys = [_key(pl.col("at_us") // _HOUR_US % HOURS, HOURS).alias("hour")]
    if latency:
        # Below a millisecond, logarithms are negative; such calls are in the first step.
        at_least_one = pl.when(pl.col(_LATENCY) >= 1).then(pl.col(_LATENCY)).otherwise(pl.lit(1.0))
        exponent = (at_least_one.log() * (1 / log(LATENCY_STEP))).floor().cast(pl.Int64)
        step = _key(exponent, _STEPS)
        timed = pl.when(pl.col(_LATENCY) >= 0).then(step).otherwise(pl.lit(_NO_KEY))
        keys.append(timed.alias("step"))
    keyed = numbered.select(keys).collect()
    names = {row["group"]: tuple(row[name] for name in _KEY) for row in groups.rows(named=True)}
    counted = [
        *_count(keyed, "hour", HOURS),
        *((group, HOURS + step, n) for group, step, n in _count(keyed, "step", _STEPS)),
    ]
    rows = [(*names[group], slot, calls) for group, slot, calls in counted]
    return pl.DataFrame(rows, _SLOTS, orient="row")


def add_slots(counted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up what `count_slots` returned for some calls each."""
    return pl.concat(counted).group_by(*_KEY, "slot").agg(pl.col("calls").sum())


def window_of(
    slots: pl.DataFrame, first_us: int, last_us: int, most: int = MOST_GROUPS
) -> TrafficWindow:
    """Return the window with these counts and ends, in microseconds since 1970."""
    hours: dict[_Group, list[int]] = defaultdict(lambda: [0] * HOURS)
    latencies: dict[_Group, dict[int, int]] = defaultdict(dict)
    for *group, slot, calls in slots.select(list(_SLOTS)).iter_rows():
        key = cast("_Group", tuple(group))
        if slot < HOURS:
            hours[key][slot] = calls
        else:
            latencies[key][slot - HOURS] = calls
    traffic = [
        Traffic(
            **dict(zip(_KEY, key, strict=True)),
            calls=sum(own),
            hours=tuple(own),
            latencies=latencies.get(key, {}),
        )
        for key, own in hours.items()
    ]
    traffic.sort(key=lambda each: (-each.calls, each.route, each.provider, each.model))
    first, last = (EPOCH + timedelta(microseconds=at) for at in (first_us, last_us))
    return TrafficWindow(first_call=first, last_call=last, traffic=traffic[:most])


def _key(value: pl.Expr, values: int) -> pl.Expr:
    return pl.col("group") * values + value


def _count(keyed: pl.DataFrame, name: str, values: int) -> Iterator[tuple[int, int, int]]:
    """Yield each group and value with its calls; a call without a latency has none."""
    if name in keyed.columns:
        for key, calls in keyed.group_by(name).len().iter_rows():
            if key != _NO_KEY:
                yield *divmod(key, values), calls
