"""When the calls of an account came and how long they took, by route, provider and model."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from math import log
from typing import Final, cast

import polars as pl

from detectors.contract import HOURS, LATENCY_STEP, Traffic, TrafficWindow
from detectors.engine import Calls, collect, join_small, number_labels
from detectors.report.counting.projection import EPOCH

# So many groups have a page with hours and latencies: those with the most calls.
MOST_GROUPS: Final = 2_000
_HOUR_US: Final = 3_600_000_000
_KEY: Final = ("route", "provider", "model")
_SLOTS: Final = {**dict.fromkeys(_KEY, pl.String), "slot": pl.Int32, "calls": pl.Int64}
_Group = tuple[str, str, str]
_LATENCY: Final = "latency_ms"
_MOST_SLOTS: Final = 1_000  # more than hours, and the steps up to the contract's longest latency


def count_slots(calls: Calls) -> pl.DataFrame:
    """Count the calls of each route, provider and model by slot.

    A slot is an hour of the day, or `HOURS` more than a step of latency, which not all calls have.
    """
    # Numbers are joined first, because grouping by three texts takes several times as long. A key
    # is the number of a group and a slot, because one key is faster than two.
    route = pl.when(pl.col("tag") != "").then(pl.col("tag")).otherwise(pl.col("endpoint"))
    latency = [name for name in calls.collect_schema().names() if name == _LATENCY]
    labelled = calls.select(route.alias("route"), *_KEY[1:], "at_us", *latency)
    groups = number_labels(labelled, "group", _KEY).cast({"group": pl.Int64})
    slots = [pl.col("at_us") // _HOUR_US % HOURS]
    if latency:
        # Below a millisecond, logarithms are negative; such calls are in the first step.
        at_least_one = pl.when(pl.col(_LATENCY) >= 1).then(pl.col(_LATENCY)).otherwise(pl.lit(1.0))
        step = (at_least_one.log() * (1 / log(LATENCY_STEP))).floor().cast(pl.Int64)
        slots.append(pl.when(pl.col(_LATENCY) >= 0).then(HOURS + step))
    keys = (pl.col("group") * _MOST_SLOTS + slot for slot in slots)
    numbered = join_small(labelled, groups, _KEY)
    keyed = numbered.select(key.alias(f"key_{n}") for n, key in enumerate(keys)).collect()
    counted = pl.concat(
        column.drop_nulls().alias("key").to_frame().group_by("key").len("calls") for column in keyed
    )
    key = pl.col("key")
    slotted = counted.with_columns(
        (key // _MOST_SLOTS).alias("group"), (key % _MOST_SLOTS).alias("slot")
    )
    return slotted.join(groups, on="group").select(
        pl.col(name).cast(kind) for name, kind in _SLOTS.items()
    )


def add_slots(counted: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Add up what `count_slots` returned for some calls each."""
    slots = pl.concat([each.lazy() for each in counted])
    # As a stream, which takes half the memory and time for a million slots.
    return collect(slots.group_by(*_KEY, "slot").agg(pl.col("calls").sum()))


def window_of(
    slots: pl.DataFrame, first_us: int, last_us: int, most: int = MOST_GROUPS
) -> TrafficWindow:
    """Return the window with these counts and ends, in microseconds since 1970."""
    calls = pl.col("calls")
    ranked = slots.filter(pl.col("slot") < HOURS).group_by(_KEY).agg(calls.sum())
    listed = slots.join(ranked.sort(-calls, *_KEY).head(most), on=_KEY, how="semi")
    hours: dict[_Group, list[int]] = defaultdict(lambda: [0] * HOURS)
    latencies: dict[_Group, dict[int, int]] = defaultdict(dict)
    for *group, slot, number in listed.select(list(_SLOTS)).iter_rows():
        key = cast("_Group", tuple(group))
        if slot < HOURS:
            hours[key][slot] = number
        else:
            latencies[key][slot - HOURS] = number
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
    return TrafficWindow(first_call=first, last_call=last, traffic=traffic)
