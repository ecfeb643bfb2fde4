"""Calls by hour of day and by latency, in frames of every library."""

from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

import detectors
from detectors.contract import (
    HOURS,
    LATENCY_STEP,
    Traffic,
    TrafficWindow,
    UsageRecordV2,
    add_hours,
    add_latencies,
    percentile_ms,
)
from detectors.frames.sources import checked_calls
from detectors.report.account.traffic import count_slots, window_of
from tests.detectors.inputs.frames import INPUTS, SPARK_UNDER_STRESS, as_polars

NOON = datetime(2026, 10, 5, 12, tzinfo=UTC)


def _call(tag: str = "chat", hour: int = 12, **more: Any) -> UsageRecordV2:
    fields = {"provider": "openai", "model": "gpt-4o", "prompt_tokens": 1, "completion_tokens": 1}
    return UsageRecordV2(**{"ts": NOON.replace(hour=hour), "tag": tag, **fields, **more})


def _sum(
    records: list[UsageRecordV2], library: str = "polars", **more: int
) -> TrafficWindow | None:
    calls = checked_calls(detectors.read(INPUTS[library](as_polars(records))).frame)
    slots = count_slots(calls)
    if slots.is_empty():
        return None
    ends = calls.select(first=pl.col("at_us").min(), last=pl.col("at_us").max()).collect().row(0)
    return window_of(slots, *ends, **more)


@pytest.mark.parametrize("library", SPARK_UNDER_STRESS)
def test_calls_of_every_library_are_counted_alike(library: str) -> None:
    calls = [_call(hour=9, latency_ms=each) for each in (0.0, 0.4, 1.0, 100.0, 101.0, 9_000.0, 1e9)]
    calls += [_call(hour=23), _call(tag="", endpoint="/v1/chat", model="unheard-of", hour=0)]
    window = _sum(calls, library)
    assert window is not None
    chat, other = window.traffic
    assert (chat.route, chat.provider, chat.model, chat.calls) == ("chat", "openai", "gpt-4o", 8)
    assert {hour: calls for hour, calls in enumerate(chat.hours) if calls} == {9: 7, 23: 1}
    assert dict(chat.latencies) == {0: 3, 94: 2, 186: 1, 424: 1}
    # A call without a price counts, too.
    assert (other.route, other.model, other.hours[0]) == ("/v1/chat", "unheard-of", 1)
    assert not other.latencies
    assert window.first_call == NOON.replace(hour=0)
    assert window.last_call == NOON.replace(hour=23)


def test_groups_with_the_most_calls_are_listed_and_no_calls_have_no_window() -> None:
    calls = [_call("one"), _call("two"), _call("two"), _call("again"), _call("again")]
    window = _sum(calls, most=2)
    assert window is not None
    assert [each.route for each in window.traffic] == ["again", "two"]
    # Without calls there is no window.
    assert _sum([]) is None
    # Without latencies there are none.
    window = _sum([_call()])
    assert window is not None
    assert percentile_ms(add_latencies(window.traffic), 50) is None


@pytest.mark.parametrize("percent", [1, 50, 95, 100])
def test_a_percentile_is_that_of_the_calls_within_its_step(percent: int) -> None:
    latencies = [1.5**at for at in range(1, 41)]
    window = _sum([_call(hour=at % 24, latency_ms=each) for at, each in enumerate(latencies)])
    assert window is not None
    exact = latencies[-(-len(latencies) * percent // 100) - 1]
    found = percentile_ms(add_latencies(window.traffic), percent)
    assert found == pytest.approx(exact, rel=LATENCY_STEP**0.5 - 1 + 1e-9)


def test_counts_of_several_models_add_up() -> None:
    def traffic(hour: int, **latencies: int) -> Traffic:
        hours = [int(at == hour) for at in range(HOURS)]
        steps = {int(step[1:]): calls for step, calls in latencies.items()}
        return Traffic(route="a", provider="b", model="c", calls=1, hours=hours, latencies=steps)

    both = [traffic(3, s1=1, s2=4), traffic(4, s2=5)]
    assert add_hours(both)[3:5] == (1, 1)
    assert sum(add_hours([])) == 0
    assert add_latencies(both) == {1: 1, 2: 9}
