"""Columns of spend over time, stacked by series, for a page as wide as its window.

Only the bars are drawn: axes, legend and values are text of the page, which keeps its size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
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
_SPANS: Final = {1: "day", 7: "week"}
_NONE: Final = Decimal(0)
# A budget further above the columns than this would flatten them, so it has no line.
_FAR_BUDGET: Final = 2


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
    days: tuple[date, date] | None = None
    is_open: bool = False  # has a day that isn't over
    reason: str = ""  # why it is unusual
    changes: tuple[str, ...] = ()  # what changed then


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
    before: str = ""  # the outline of a line over the period before
    budget: str = ""
    whose: str = "UTC"  # days
    open_bars: str = ""  # the outline of columns whose last day isn't over
    is_projected: bool = False  # not spent, so that cents mean nothing

    def write(self, amount: Decimal) -> str:
        return whole_usd(amount) if self.is_projected else usd(amount)

    @property
    def listed(self) -> tuple[Series, ...]:
        """Return the series that have a column of the table: all, unless there is no other."""
        is_alone = len(self.series) == 1 and self.series[0].key is None
        return () if is_alone else self.series


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a chart shows besides its columns."""

    slots: Mapping[str, int] = field(default_factory=dict)  # the color of each series
    before: Mapping[date, Decimal] = field(default_factory=dict)  # by the day that it is shown at
    daily_budget: Decimal | None = None
    reasons: Mapping[date, str] = field(default_factory=dict)  # of unusual days
    changes: Mapping[date, Sequence[str]] = field(default_factory=dict)
    today: date | None = None
    whose: str = "UTC"  # days


_PLAIN: Final = Marks()


def stacked_columns(
    amounts: Mapping[date, Mapping[str | None, Decimal]],
    names: Mapping[str | None, str],
    days: tuple[date, date],
    marks: Marks = _PLAIN,
    measure: str = "Spend",
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
        Series(
            key=key,
            name=name,
            kind=_OTHERS_KIND if key is None else marks.slots.get(key, at),
            total=total,
        )
        for at, (key, name) in enumerate(names.items())
        if (total := sum((each.get(key, _NONE) for each in sums), _NONE)) or key is not None
    )
    columns = []
    for at, (first, spent) in enumerate(zip(starts, sums, strict=True)):
        last = min(first + timedelta(days=span - 1), days[1])
        within = [first + timedelta(days=each) for each in range((last - first).days + 1)]
        parts = tuple((each, spent[each.key]) for each in series if spent.get(each.key))
        total = sum((amount for _, amount in parts), _NONE)
        is_late = at * 2 >= len(sums)
        columns.append(
            Column(
                label=period(first, last),
                total=total,
                parts=parts,
                is_late=is_late,
                days=(first, last),
                is_open=marks.today is not None and first <= marks.today <= last,
                reason=". ".join(filter(None, (marks.reasons.get(each) for each in within))),
                changes=tuple(words for each in within for words in marks.changes.get(each, ())),
            )
        )
    total, peak = (
        sum((column.total for column in columns), _NONE),
        max(columns, key=lambda each: each.total),
    )
    length = counted(count, "day")
    before = [
        sum((marks.before.get(first + timedelta(days=each), _NONE) for each in range(span)), _NONE)
        for first in starts
    ]
    highest = max(*(column.total for column in columns), *before, _NONE)
    budget = marks.daily_budget * span if marks.daily_budget is not None else None
    if budget is not None and budget <= highest * _FAR_BUDGET:
        highest = max(highest, budget)
    top = ceiling(float(highest))
    return Columns(
        title=f"{measure} by {_SPANS.get(span, f'{span} days')}",
        unit={1: "Day", 7: "Week"}.get(span, "Period"),
        summary=f"{usd(total)} in {length}; "
        f"peak: {usd(peak.total)} on {peak.label} ({marks.whose}).",
        outlines=outline_columns(columns, series, top),
        amounts=(short_usd(top), short_usd(top / 2), short_usd(0)),
        dates=name_some([short_day(start) for start in starts]),
        columns=tuple(columns),
        series=series,
        whose=marks.whose,
        before="".join(  # a line through the middle of each column
            f"{'L' if at else 'M'}{at}.5 {_height(each, top)}"
            for at, each in enumerate(before if any(before) else ())
        ),
        budget=f"M0 {_height(budget, top)}H{len(columns)}" if budget and budget <= highest else "",
        open_bars="".join(
            f"M{at}.12 {_height(each.total, top)}h.76V{HEIGHT}h-.76z"
            for at, each in enumerate(columns)
            if each.is_open and each.total
        ),
    )


def _height(amount: Decimal, top: float) -> str:
    return pixels(HEIGHT - float(amount) / top * HEIGHT)


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
