"""Daily spend: exact sums by day, route, provider, model and environment."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

import detectors
from detectors.prices.book import PriceBook
from detectors.report.account import sum_spend
from service.cli.demo import SAMPLE

CALL: dict[str, Any] = {
    "ts": "2026-10-05T12:00:00Z",
    "provider": "openai",
    "model": "gpt-4o",
    "prompt_tokens": 1_000_000,
    "completion_tokens": 0,
    "tag": "search",
}


@pytest.fixture(scope="module")
def book() -> PriceBook:
    return PriceBook()


def test_the_spend_of_the_sample_adds_up_to_its_audit(book: PriceBook) -> None:
    log = detectors.read(SAMPLE)
    once = log.frame.unique()
    report = detectors.audit(once, prices=book)
    (lines,) = sum_spend([once], book)
    assert sum(line.cost_usd for line in lines) == report.audit.total_spend_usd
    assert sum(line.calls for line in lines) == report.audit.records
    by_day: dict[str, Decimal] = {}
    by_route: dict[str, Decimal] = {}
    for line in lines:
        if line.calls > line.unpriced_calls:
            day = line.day.isoformat()
            by_day[day] = by_day.get(day, Decimal(0)) + line.cost_usd
            by_route[line.route] = by_route.get(line.route, Decimal(0)) + line.cost_usd
    assert by_day == {each.day: each.spend_usd for each in report.spend_by_day}
    assert by_route == {each.route: each.spend_usd for each in report.spend_by_route}


def test_each_key_has_a_line(book: PriceBook) -> None:
    calls = [
        CALL,
        CALL | {"completion_tokens": 7, "cached_tokens": 5},
        CALL | {"environment": "staging"},
        CALL | {"tag": None, "endpoint": "/v1/chat"},
        CALL | {"model": "unheard-of"},
        CALL | {"ts": "2026-10-06T00:30:00+02:00"},  # still October 5 in UTC
        CALL | {"ts": "2026-10-06T00:30:00Z"},
    ]
    (lines,) = sum_spend([detectors.read(calls).frame], book)
    found = [
        (str(line.day), line.route, line.model, line.environment, line.calls, line.unpriced_calls)
        for line in lines
    ]
    assert found == [
        ("2026-10-05", "/v1/chat", "gpt-4o", "", 1, 0),
        ("2026-10-05", "search", "gpt-4o", "", 3, 0),
        ("2026-10-05", "search", "gpt-4o", "staging", 1, 0),
        ("2026-10-05", "search", "unheard-of", "", 1, 1),
        ("2026-10-06", "search", "gpt-4o", "", 1, 0),
    ]
    assert lines[1].prompt_tokens == 3_000_000
    assert (lines[1].completion_tokens, lines[1].cached_tokens) == (7, 5)
    assert lines[3].cost_usd == 0
    assert lines[4].cost_usd == Decimal("2.5")


def test_a_discount_lowers_the_cost_and_not_the_list_price(book: PriceBook) -> None:
    frame = detectors.read([CALL]).frame
    half = PriceBook(discounts={"openai": {"share": 0.5}})
    ((line,),) = sum_spend([frame], half, book)
    assert (line.cost_usd, line.list_usd) == (Decimal("1.25"), Decimal("2.5"))
    assert line.day == date(2026, 10, 5)


def test_several_frames_are_summed_apart(book: PriceBook) -> None:
    one, two = detectors.read([CALL]).frame, detectors.read([CALL, CALL | {"tag": "b"}]).frame
    empty = one.clear()
    apart = [sum_spend([frame], book)[0] for frame in (one, empty, two)]
    assert sum_spend([one, empty, two], book) == apart
    assert apart[1] == []
