"""Calls by hour of the day, as columns that are as wide as the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from detectors.charts.chart import ceiling, pixels
from detectors.charts.columns import HEIGHT
from detectors.wording.figures import counted, number, short_number

_LABELED_EVERY: Final = 6  # hours


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """An hour's name, its calls, and its share of all calls as a percentage."""

    label: str
    calls: int
    share: float
    is_late: bool  # in the right half, where its values are shown to its left


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursOfDay:
    """A chart: the outline of its bars, its axes, and its hours."""

    summary: str
    outline: str
    amounts: tuple[str, str, str]  # of the vertical axis, from the top
    labels: tuple[str, ...]  # below each column; most are empty
    hours: tuple[Hour, ...]


def calls_by_hour(counts: Sequence[int]) -> HoursOfDay:
    total, top = sum(counts), ceiling(float(max(counts)))
    hours = tuple(
        Hour(
            label=f"{at:02}:00 to {at + 1:02}:00",
            calls=calls,
            share=calls / total * 100 if total else 0.0,
            is_late=at * 2 >= len(counts),
        )
        for at, calls in enumerate(counts)
    )
    peak = max(hours, key=lambda hour: hour.calls)
    return HoursOfDay(
        summary=f"{counted(total, 'call')}; peak: {number(peak.calls)} from {peak.label} UTC.",
        outline="".join(
            f"M{at}.12 {pixels(HEIGHT - height)}h.76v{pixels(height)}h-.76z"
            for at, calls in enumerate(counts)
            if (height := calls / top * HEIGHT)
        ),
        # Without the half where it would be rounded.
        amounts=(short_number(top), short_number(top / 2) if not top % 2 else "", "0"),
        labels=tuple(
            f"{at:02}:00" if at % _LABELED_EVERY == 0 else "" for at in range(len(counts))
        ),
        hours=hours,
    )
