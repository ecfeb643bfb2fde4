"""Which windows are due: newest first, the last days again, and months after their end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.connections.openai.reports import REPORTS
from service.operations.connections.plan import advance, find_next, list_windows

NOW = datetime(2026, 11, 28, 9, 30, tzinfo=UTC)
COSTS = [report for report in REPORTS if report.name == "costs"]
DAILY = [report for report in REPORTS if report.name == "completions"]


def _pull(
    reports: Any, progress: dict[str, Any], now: datetime, since: datetime = NOW
) -> tuple[dict[str, Any], list[tuple[datetime, datetime | None]]]:
    """Pull until nothing is due; returns the progress and the windows in their order."""
    windows = []
    while due := list_windows(reports, progress, now, since):
        progress = advance(progress, due[0], now, since)
        windows.append((due[0].first, due[0].last))
        assert len(windows) < 50
    return progress, windows


def test_the_first_pull_goes_back_90_days_in_windows_of_one_request() -> None:
    _progress, windows = _pull(DAILY, {}, NOW)
    assert windows[0][1] is None
    assert windows[-1][0] == datetime(2026, 8, 31, tzinfo=UTC)
    for newer, older in zip(windows, windows[1:], strict=False):
        assert older[1] == newer[0]
        assert older[1] is not None
        assert older[1] - older[0] <= timedelta(days=31)


def test_the_last_five_days_are_pulled_again_each_time() -> None:
    progress, _windows = _pull(DAILY, {}, NOW)
    assert not list_windows(DAILY, progress, NOW + timedelta(minutes=59), NOW)
    _progress, windows = _pull(DAILY, progress, NOW + timedelta(hours=1))
    assert windows == [(datetime(2026, 11, 23, tzinfo=UTC), None)]
    assert find_next(DAILY, progress, NOW) == NOW + timedelta(hours=1)
    assert find_next(COSTS, _pull(COSTS, {}, NOW)[0], NOW) == NOW + timedelta(days=1)


@pytest.mark.parametrize("most", [31, 7])
def test_each_month_is_pulled_again_3_6_10_and_30_days_after_its_end(most: int) -> None:
    reports = [replace(report, most_buckets=most) for report in DAILY]
    progress, _windows = _pull(reports, {}, NOW)
    again = []
    for day in range(1, 40):
        now = datetime(2026, 12, 1, 12, tzinfo=UTC) + timedelta(days=day - 1)
        progress, windows = _pull(reports, progress, now)
        if (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)) in windows:
            again.append(day)
    assert again == [4, 7, 11, 31]


def test_what_was_missed_in_a_pause_is_pulled() -> None:
    progress, _windows = _pull(DAILY, {}, NOW)
    _progress, windows = _pull(DAILY, progress, NOW + timedelta(days=20))
    assert windows[0] == (datetime(2026, 11, 23, tzinfo=UTC), None)
