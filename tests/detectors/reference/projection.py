"""From when calls were made to what a month of them costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from detectors.contract import UsageRecord
from tests.detectors.reference.calls import microseconds
from tests.detectors.reference.limits import Limits

_DAY = 86_400 * 1_000_000  # in microseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Projection:
    """The period that a month is projected from; instants are microseconds since 1970."""

    kind: str
    span_days: float
    first: int
    last: int
    window_start: int  # the first instant in the window
    factor: float
    strays: tuple[int, ...]
    observed_days: int

    def has(self, instant: int) -> bool:
        """Check whether a call of this instant lies in the window."""
        return self.window_start <= instant <= self.last


def projection(records: Sequence[UsageRecord], limits: Limits) -> Projection:
    """Project all valid calls, unpriced ones included."""
    times = sorted(microseconds(record) for record in records)
    if not times:
        return Projection("none", 0.0, 0, 0, 0, 1.0, (), 1)
    early, late = stray_counts(times, limits)
    kept = times[early : len(times) - late]
    first, last = kept[0], kept[-1]
    span = span_of(kept)
    month = limits.days_per_month
    is_long = span > month
    begin = last - round(month * _DAY) + 1 if is_long else first
    kind = _kind(span, sum(instant >= begin for instant in kept), limits)
    return Projection(
        kind=kind,
        span_days=span,
        first=first,
        last=last,
        window_start=begin,
        factor=1.0 if kind == "none" else month / min(span, month),
        strays=tuple(times[:early] + times[len(times) - late :]),
        observed_days=(_date(last) - _date(first)).days + 1,
    )


def stray_counts(times: Sequence[int], limits: Limits) -> tuple[int, int]:
    """Return how many of the first and of the last calls are stray."""
    allowed = max(1, limits.outlier_share * len(times))
    gap = limits.outlier_gap_days * _DAY
    early = late = 0
    for number in range(1, len(times)):  # so many calls before the gap
        if times[number] - times[number - 1] <= gap:
            continue
        if number <= allowed:
            early = number
        if len(times) - number <= allowed:
            late = max(late, len(times) - number)
    return (early, late) if early + late <= allowed else (0, 0)


def span_of(times: Sequence[int]) -> float:
    """Return the span in days of the calls at these instants, which are in order."""
    seconds = len({instant // 1_000_000 for instant in times})
    if seconds < 2:
        return 0.0
    return (times[-1] - times[0]) / _DAY * seconds / (seconds - 1)


def _kind(span: float, calls: int, limits: Limits) -> str:
    if calls < limits.projection_min_calls or span < limits.very_rough_span_hours / 24:
        return "none"
    if span < limits.rough_span_days:
        return "very rough"
    return "rough" if span < limits.good_span_days else "good"


def _date(instant: int) -> datetime:
    moment = _EPOCH + timedelta(microseconds=instant)
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
