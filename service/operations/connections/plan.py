"""Which windows of which reports to pull now: pure functions of what was pulled before.

The newest days come first, then older ones, as far as a report goes back. The last days are pulled
again each time, and each month again 3, 6 and 10 days after its end: no provider says that its
figures are final.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from service.connections.provider import DAY, HOUR, Report, Window

# What is pulled again each time.
_AGAIN: Final = timedelta(days=5)
# When each month is pulled again, in days after its end: then it is locked, and later corrections
# show as such. Without the last of these, we would never see one.
RECHECKS: Final = (3, 6, 10, 30)
LOCKED_AFTER: Final = timedelta(days=10)
_NAMES_EVERY: Final = DAY

# By report: `back`, the first moment that was pulled; `at`, when it was pulled last; `months`, how
# many rechecks each month had.
Progress = Mapping[str, Mapping[str, Any]]


def _choose(reports: Sequence[Report], progress: Progress) -> Sequence[Report]:
    """Leave out reports that a better one replaces, unless the key may not read that."""
    better = {report.instead_of: report.name for report in reports if report.instead_of}
    return [
        report
        for report in reports
        if report.name not in better or is_denied(progress.get(better[report.name]))
    ]


def is_denied(state: Mapping[str, Any] | None) -> bool:
    """Check whether a report was asked for and couldn't be read."""
    return state is not None and "back" not in state


def list_windows(
    reports: Sequence[Report], progress: Progress, now: datetime, since: datetime
) -> list[Window]:
    """Return what is due, newest first. `since` is when the connection was made."""
    due = [
        window
        for report in _choose(reports, progress)
        for window in _list_due(report, progress.get(report.name, {}), now, since)
    ]
    # What was never pulled comes before what is pulled again, and both in the order of reports.
    order = {report.name: number for number, report in enumerate(reports)}
    later = now + DAY
    return sorted(
        due, key=lambda each: (-(each.last or later).timestamp(), order[each.report.name])
    )


def _list_due(
    report: Report, state: Mapping[str, Any], now: datetime, since: datetime
) -> Iterator[Window]:
    start = floor(now, report.width)
    back = datetime.fromisoformat(state["back"]) if "back" in state else None
    at = datetime.fromisoformat(state["at"]) if "at" in state else None
    if at is None or now - at >= report.every:
        # The first time as much as one request has; after a pause, what it missed, too.
        again = _AGAIN if back is not None else (report.most_buckets - 1) * report.width
        first = floor(min(at or now, now), report.width) - again
        yield Window(report, max(min(first, start), _oldest(report, now)), None)
    if back is not None:
        # Windows of one request each, newest first.
        oldest, span = _oldest(report, now), report.most_buckets * report.width
        while oldest < back:
            yield Window(report, max(oldest, back - span), back)
            back -= span
        if report.width == DAY:
            for month, number in _list_rechecks(state, now, since):
                first, last = max(month_start(month), oldest), month_end(month)
                if number and first < last:  # in one window, so that it is done or isn't
                    yield Window(report, first, last)


def _list_rechecks(
    state: Mapping[str, Any], now: datetime, since: datetime
) -> Iterator[tuple[date, int]]:
    """Yield the months that ended a while ago, with the number of the recheck that is due."""
    months = state.get("months", {})
    first = now.date().replace(day=1)
    for _month in range(2):
        first = (first - DAY).replace(day=1)
        reached = sum(now >= month_end(first) + timedelta(days=days) for days in RECHECKS)
        # What was first pulled later needs no recheck of that day.
        had = sum(since >= month_end(first) + timedelta(days=days) for days in RECHECKS)
        if reached > max(had, months.get(first.isoformat(), 0)):
            yield first, reached


def advance(progress: Progress, window: Window, now: datetime, since: datetime) -> dict[str, Any]:
    """Return the progress after a window was stored."""
    report, state = window.report, dict(progress.get(window.report.name, {}))
    back = datetime.fromisoformat(state["back"]) if "back" in state else None
    if window.last is None:
        state["at"] = now.isoformat()
    if back is None or (window.first < back and (window.last is None or window.last >= back)):
        state["back"] = window.first.isoformat()
    if back is not None and window.last is not None:
        months = dict(state.get("months", {}))
        for month, number in _list_rechecks(state, now, since):
            first = max(month_start(month), _oldest(report, now))
            # The oldest part of the month is pulled last.
            if window.last <= month_end(month) and window.first <= first < window.last:
                months[month.isoformat()] = number
        state["months"] = {month: months[month] for month in sorted(months)[-3:]}
    return {**progress, report.name: state}


def find_next(reports: Sequence[Report], progress: Progress, now: datetime) -> datetime:
    """Return when a report is due again, once nothing is."""
    due = (
        datetime.fromisoformat(progress[report.name]["at"]) + report.every
        for report in _choose(reports, progress)
        if "at" in progress.get(report.name, {})
    )
    return min(due, default=now + HOUR)


def without(progress: Progress, reports: Sequence[Report], kind: str) -> dict[str, Any]:
    """Return the progress as if no report of this kind had been pulled."""
    names = {report.name for report in reports if report.kind == kind}
    return {name: state for name, state in progress.items() if name not in names}


def needs_names(progress: Progress, now: datetime) -> bool:
    at = progress.get("names", {}).get("at")
    return at is None or now - datetime.fromisoformat(at) >= _NAMES_EVERY


def floor(moment: datetime, width: timedelta) -> datetime:
    whole = moment.replace(minute=0, second=0, microsecond=0)
    return whole if width == HOUR else whole.replace(hour=0)


def month_start(month: date) -> datetime:
    return datetime.combine(month, time(), UTC)


def month_end(month: date) -> datetime:
    """Return the first moment of the next month."""
    return month_start((month.replace(day=28) + timedelta(days=4)).replace(day=1))


def _oldest(report: Report, now: datetime) -> datetime:
    return floor(now, report.width) - timedelta(days=report.days_back) + report.width
