"""The calls of the seeded account are the same each time, and show what its pages are for."""

from collections import Counter
from datetime import date

import pytest

import detectors
from detectors.contract.record import MAX_BATCH_RECORDS, UsageRecordV2
from detectors.wording.actions import title, with_savings
from service.cli.sample.calls import (
    FIXED_ON,
    FIXED_ROUTE,
    PAUSED,
    RETURNED_ROUTE,
    ROUTES,
    SEEDED_DAYS,
    UNUSUAL_DAYS,
    UNUSUAL_ROUTE,
    make_calls,
)

LAST = date(2026, 11, 21)


@pytest.fixture(scope="module")
def days() -> list[list[UsageRecordV2]]:
    return list(make_calls(LAST))


def test_they_are_ninety_days_of_forty_routes_in_four_environments(
    days: list[list[UsageRecordV2]],
) -> None:
    calls = [call for day in days for call in day]
    assert (len(days), days[-1][-1].ts.date()) == (SEEDED_DAYS, LAST)
    assert {call.tag for call in calls} == set(ROUTES)
    assert len(ROUTES) == len(set(ROUTES)) == 40
    assert len({call.environment for call in calls}) == 4
    assert len({call.request_id for call in calls}) == len(calls)
    assert max(sum(map(len, days[at : at + 7])) for at in range(0, 90, 7)) < MAX_BATCH_RECORDS


def test_they_grow_and_rest_on_weekends(days: list[list[UsageRecordV2]]) -> None:
    weeks = [sum(map(len, days[at : at + 7])) for at in range(0, 84, 7)]
    assert weeks[-1] > 1.2 * weeks[0]
    saturdays = [len(day) for day in days if day[0].ts.weekday() == 5]
    assert max(saturdays) < min(len(day) for day in days if day[0].ts.weekday() < 5)


def test_a_route_is_fixed_another_returns_and_two_days_are_unusual(
    days: list[list[UsageRecordV2]],
) -> None:
    repeated: dict[str, set[int]] = {FIXED_ROUTE: set(), RETURNED_ROUTE: set()}
    for number, day in enumerate(days):
        for call in day:
            if call.tag in repeated and str(call.request_id).endswith("-1"):
                repeated[call.tag].add(number)
    assert max(repeated[FIXED_ROUTE]) == FIXED_ON - 1
    assert not repeated[RETURNED_ROUTE] & set(PAUSED)
    assert max(repeated[RETURNED_ROUTE]) > max(PAUSED)
    counts = Counter(
        number for number, day in enumerate(days) for call in day if call.tag == UNUSUAL_ROUTE
    )
    assert {number for number, _count in counts.most_common(2)} == set(UNUSUAL_DAYS)


def test_a_tenth_of_their_month_is_avoidable_in_findings_of_every_certainty(
    days: list[list[UsageRecordV2]],
) -> None:
    report = detectors.audit([call for day in days[-30:] for call in day])
    assert 8 <= report.audit.savings_pct <= 15
    found = with_savings(report.findings)
    assert {each.confidence for each in found} == {"VERIFIED", "ESTIMATED", "CONDITIONAL"}
    assert {each.detector[:2] for each in found} == {"d1", "d2", "d4", "d6"}
    assert str(title(found[0])) == "Cache the repeated start of knowledge-base-answers prompts"


def test_they_are_the_same_each_time(days: list[list[UsageRecordV2]]) -> None:
    assert list(make_calls(LAST)) == days
