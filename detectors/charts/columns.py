"""Columns of spend over time, stacked by series, for a page as wide as its window.

Only the bars are drawn: axes, legend and values are text of the page, which keeps its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from types import MappingProxyType
from typing import Final, Protocol

from detectors.charts.chart import SERIES, ceiling, pixels
from detectors.wording.figures import counted, day, period, short_day, short_usd, usd, whole_usd

# The drawing's height; its width is one for each column, and both are stretched.
HEIGHT: Final = 1_000
MOST_SERIES: Final = len(SERIES) - 1
_OTHERS_KIND: Final = len(SERIES) - 1
_MOST_COLUMNS: Final = 62
# Distances between the dates of the axis, the first of which divides the columns if it can.
_DATE_STEPS: Final = (4, 3)
_NONE: Final = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """A color of the chart and what it stands for, most expensive first."""

    key: str | None  # of the amounts; None for all others together
    name: str
    kind: int
    total: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The days of one column, and the amounts of the series that it has."""

    label: str
    total: Decimal
    parts: tuple[tuple[Series, Decimal], ...]
    is_late: bool  # in the right half, where its values are shown to its left
    marks: tuple[str, ...] = ()  # what happened on its days

    def amount(self, series: Series) -> Decimal:
        return next((amount for each, amount in self.parts if each is series), _NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A chart: the outlines of its bars by kind, its axes, and its columns."""

    title: str
    unit: str  # what a column stands for: Day, Week, or Period
    summary: str
    outlines: tuple[tuple[int, str], ...]
    amounts: tuple[str, str, str]  # of the vertical axis, from the top
    dates: tuple[str, ...]  # below each column; most are empty
    columns: tuple[Column, ...]
    series: tuple[Series, ...]
    is_projected: bool = False  # not spent, so that cents mean nothing


def stacked_columns(
    amounts: Mapping[date, Mapping[str | None, Decimal]],
    names: Mapping[str | None, str],
    days: tuple[date, date],
    marks: Mapping[date, Sequence[str]] = MappingProxyType({}),
) -> Columns:
    """Chart each day of a range, or several days in a column where there are too many.

    `names` has the series in their order; the amounts of None are those of all others. `marks` say
    what happened on a day.
    """
    count = (days[1] - days[0]).days + 1
    # As many weeks as the columns need to fit.
    span = 1 if count <= _MOST_COLUMNS else 7 * -(-count // (7 * _MOST_COLUMNS))
    starts = [days[0] + timedelta(days=at) for at in range(0, count, span)]
    sums: list[dict[str | None, Decimal]] = [{} for _ in starts]
    for at in range(count):
        sum_of_column = sums[at // span]
        for key, amount in amounts.get(days[0] + timedelta(days=at), {}).items():
            sum_of_column[key] = sum_of_column.get(key, _NONE) + amount
    series = tuple(
        Series(key=key, name=name, kind=_OTHERS_KIND if key is None else at, total=total)
        for at, (key, name) in enumerate(names.items())
        if (total := sum((each.get(key, _NONE) for each in sums), _NONE)) or key is not None
    )
    columns = []
    for at, (first, spent) in enumerate(zip(starts, sums, strict=True)):
        label = period(first, min(first + timedelta(days=span - 1), days[1]))
        parts = tuple((each, spent[each.key]) for each in series if spent.get(each.key))
        total = sum((amount for _, amount in parts), _NONE)
        is_late = at * 2 >= len(sums)
        on_days = (marks.get(first + timedelta(days=day), ()) for day in range(span))
        columns.append(
            Column(
                label=label,
                total=total,
                parts=parts,
                is_late=is_late,
                marks=tuple(chain.from_iterable(on_days)),
            )
        )
    total, peak = (
        sum((column.total for column in columns), _NONE),
        max(columns, key=lambda each: each.total),
    )
    length = counted(count, "day")
    top = ceiling(max(float(column.total) for column in columns))
    return Columns(
        title={1: "Spend by day", 7: "Spend by week"}.get(span, f"Spend by {span} days"),
        unit={1: "Day", 7: "Week"}.get(span, "Period"),
        summary=f"{usd(total)} in {length}; peak: {usd(peak.total)} on {peak.label} (UTC).",
        outlines=outline_columns(columns, series, top),
        amounts=(short_usd(top), short_usd(top / 2), short_usd(0)),
        dates=name_some([short_day(start) for start in starts]),
        columns=tuple(columns),
        series=series,
    )


def outline_columns(
    columns: Sequence[Column], series: Sequence[Series], top: float
) -> tuple[tuple[int, str], ...]:
    boxes: dict[int, list[str]] = {each.kind: [] for each in series}
    for at, column in enumerate(columns):
        y = float(HEIGHT)
        for each, amount in column.parts:
            height = float(amount) / top * HEIGHT
            y -= height
            boxes[each.kind].append(f"M{at}.12 {pixels(y)}h.76v{pixels(height)}h-.76z")
    return tuple((kind, "".join(outline)) for kind, outline in boxes.items() if outline)


def name_some(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the first and last label, and some at about equal distances; "" for the others."""
    steps = len(labels) - 1
    parts = next((at for at in _DATE_STEPS if not steps % at), _DATE_STEPS[0])
    shown = {round(at * steps / parts) for at in range(parts + 1)}
    return tuple(label if at in shown else "" for at, label in enumerate(labels))


_TITLE: Final = "Potential savings by audit"


class AuditedSavings(Protocol):
    """One audit: when it was, and its dollars, which are 0 without the finding."""

    @property
    def audited_at(self) -> datetime: ...
    @property
    def monthly_usd(self) -> Decimal: ...


def savings_by_audit(points: Sequence[AuditedSavings]) -> Columns:
    amounts = [each.monthly_usd for each in points]
    series = Series(key=None, name="Potential savings", kind=0, total=amounts[-1])
    columns = tuple(
        Column(
            label=day(each.audited_at),
            total=each.monthly_usd,
            parts=((series, each.monthly_usd),) if each.monthly_usd else (),
            is_late=at * 2 >= len(points),
        )
        for at, each in enumerate(points)
    )
    top = ceiling(float(max(amounts)))
    peak = max(columns, key=lambda column: column.total)
    return Columns(
        title=_TITLE,
        unit="Audit",
        summary=f"{whole_usd(amounts[-1])} in the latest of {counted(len(points), 'audit')}; "
        f"peak: {whole_usd(peak.total)} on {peak.label} (UTC).",
        outlines=outline_columns(columns, (series,), top),
        amounts=(short_usd(top), short_usd(top / 2), short_usd(0)),
        dates=name_some([short_day(each.audited_at.date()) for each in points]),
        columns=columns,
        series=(series,),
        is_projected=True,
    )
