"""Calls by hour of day, and latencies, of one route or one model."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from detectors.charts import HoursOfDay, calls_by_hour
from detectors.contract import Traffic, add_hours, add_latencies, percentile_ms
from detectors.wording.figures import latency
from service.models.usage.traffic import find_traffic
from service.web.auth.callers import current_caller
from service.web.http.current import get_session

_SHOWN: Final = 20
_MEDIAN, _HIGH = 50, 95


@dataclass(frozen=True)
class Latency:
    """The latencies of some calls; `name` is their model or route, or None for all."""

    name: str | None
    calls: int
    median: str
    high: str


@dataclass(frozen=True)
class TrafficSection:
    """What the page shows, and the times of the first and last call that it is from."""

    first_call: datetime
    last_call: datetime
    chart: HoursOfDay
    latencies: Sequence[Latency]  # of all calls first, empty if none has one


def describe_traffic(others: str, only: Mapping[str, str]) -> TrafficSection | None:
    """Return the hours and latencies of a route or a model, by its models or routes.

    Return None if the latest audit of the account lacks it.
    """
    window = find_traffic(get_session(), current_caller().account_id, only)
    if window is None:
        return None
    return TrafficSection(
        first_call=window.first_call,
        last_call=window.last_call,
        chart=calls_by_hour(add_hours(window.traffic)),
        latencies=_list_latencies(others, window.traffic),
    )


def _list_latencies(others: str, traffic: Sequence[Traffic]) -> Sequence[Latency]:
    """Return the latencies of all calls, and of the models or routes with the most calls."""
    named: dict[str, list[Traffic]] = defaultdict(list)
    for each in traffic:
        named[getattr(each, others)].append(each)
    lines = [_measure(None, traffic)]
    if len(named) > 1:
        lines += [_measure(name, own) for name, own in named.items()]
    return [line for line in lines if line is not None][: _SHOWN + 1]


def _measure(name: str | None, traffic: Sequence[Traffic]) -> Latency | None:
    latencies = add_latencies(traffic)
    median, high = (percentile_ms(latencies, percent) for percent in (_MEDIAN, _HIGH))
    if median is None or high is None:
        return None
    return Latency(name, sum(latencies.values()), latency(median), latency(high))
