"""Stacked bars of spend over time: one per day, or one per several days of a long period."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from detectors.charts.chart import (
    PAPER,
    RULE,
    SERIES,
    WIDTH,
    Chart,
    Drawing,
    box,
    ceiling,
    fitted,
    hatching,
    horizontal,
)
from detectors.contract import Report
from detectors.wording.figures import counted, period, short_usd, usd
from detectors.wording.labels import inert

_MOST_BARS: Final = 62
_MODELS: Final = 5
_PLOT_LEFT: Final = 52
_PLOT_HEIGHT: Final = 170
_PLOT_TOP: Final = 10
_WIDEST_BAR: Final = 44
_LEGEND_ROW: Final = 20
_OTHERS: Final = "Other models"

_Amounts = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class _Bar:
    first: date
    last: date
    spend: _Amounts  # by series

    @property
    def total(self) -> Decimal:
        return sum(self.spend.values(), Decimal(0))

    @property
    def label(self) -> str:
        return period(self.first, self.last)


def spend_by_day(report: Report) -> Chart:
    kept = [(entry.provider, entry.model) for entry in report.spend_by_model[:_MODELS]]
    if len(report.spend_by_model) + report.other_models.count == len(kept) + 1:
        kept = [(entry.provider, entry.model) for entry in report.spend_by_model]
    seen = [model for _, model in kept]  # with its provider where a name is ambiguous
    names = {
        (provider, model): model if seen.count(model) == 1 else f"{model} ({provider})"
        for provider, model in kept
    }
    days: dict[date, dict[str, Decimal]] = {
        date.fromisoformat(entry.day): {} for entry in report.spend_by_day
    }
    for part in report.spend_by_day_and_model:
        if (part.provider, part.model) in names:
            name = names[part.provider, part.model]
            days[date.fromisoformat(part.day)][name] = part.spend_usd
    for entry in report.spend_by_day:
        spend = days[date.fromisoformat(entry.day)]
        rest = entry.spend_usd - sum(spend.values(), Decimal(0))
        # Each amount is rounded, so a difference of some billionths is not another model.
        if rest > Decimal("1e-7"):
            spend[_OTHERS if report.spend_by_day_and_model else "All models"] = rest
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for each in days.values():
        for name, amount in each.items():
            totals[name] += amount
    series = sorted(totals, key=lambda name: (name == _OTHERS, -totals[name], name))
    # As many weeks as the bars need to fit.
    length = (max(days) - min(days)).days + 1 if days else 1
    span = 1 if length <= _MOST_BARS else 7 * -(-length // (7 * _MOST_BARS))
    start, bars = min(days, default=date.min), list[_Bar]()
    sums: dict[int, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for when, each in days.items():
        for name, amount in each.items():
            sums[(when - start).days // span][name] += amount
    for index in range(-(-length // span) if days else 0):
        begin = start + timedelta(days=index * span)
        bars.append(_Bar(begin, min(begin + timedelta(days=span - 1), max(days)), sums[index]))
    title = {1: "Spend by day", 7: "Spend by week"}.get(span, f"Spend by {span} days")
    if not bars:
        summary = "No calls could be priced."
    else:
        peak = max(bars, key=lambda bar: bar.total)
        known = counted((bars[-1].last - bars[0].first).days + 1, "day")
        total = sum((bar.total for bar in bars), Decimal(0))
        summary = f"{usd(total)} in {known}; peak: {usd(peak.total)} on {peak.label}."
    shown = [bar for bar in bars if bar.total]
    return Chart(
        name="days",
        title=title,
        summary=summary,
        svg=_draw(bars, series).svg("days", title, summary),
        columns=("Day (UTC)" if span == 1 else "Days (UTC)", "Spend", *map(inert, series)),
        rows=tuple(
            (bar.label, usd(bar.total), *(usd(bar.spend.get(name, Decimal(0))) for name in series))
            for bar in shown
        ),
    )


def _draw(bars: Sequence[_Bar], series: Sequence[str]) -> Drawing:
    floor = _PLOT_TOP + _PLOT_HEIGHT
    has_legend = len(series) > 1
    drawing = Drawing(height=floor + 30 + has_legend * len(series) * _LEGEND_ROW)
    if not bars:
        drawing.text(0, 16, "No calls could be priced.", faint=True)
        return drawing
    top = ceiling(max(float(bar.total) for bar in bars))
    for part in (0.0, 0.5, 1.0):
        y = floor - part * _PLOT_HEIGHT
        drawing.rule(horizontal(_PLOT_LEFT, y, WIDTH - _PLOT_LEFT), "rule", RULE)
        drawing.text(_PLOT_LEFT - 6, y + 4, short_usd(top * part), end=True, faint=True)
    pitch = min((WIDTH - _PLOT_LEFT) / len(bars), _WIDEST_BAR / 0.8)
    width = pitch * 0.8
    by_series: list[list[tuple[float, float, float, float]]] = [[] for _ in series]
    for index, bar in enumerate(bars):
        x, y = _PLOT_LEFT + index * pitch + pitch * 0.1, float(_PLOT_TOP + _PLOT_HEIGHT)
        for kind, name in enumerate(series):
            height = float(bar.spend.get(name, Decimal(0))) / top * _PLOT_HEIGHT
            if height >= 0.1:
                y -= height
                by_series[kind].append((x, y, width, height))
    for index, boxes in enumerate(by_series):
        kind = len(SERIES) - 1 if series[index] == _OTHERS else index
        drawing.fill("".join(box(*edges) for edges in boxes), f"s{kind}", SERIES[kind])
        drawing.rule(hatching(boxes, kind), "paper", PAPER)
    first = f"{period(bars[0].first, bars[0].first)} (UTC)"
    drawing.text(_PLOT_LEFT, floor + 16, first, faint=True)
    if len(bars) > 1:
        drawing.text(WIDTH, floor + 16, period(bars[-1].last, bars[-1].last), end=True, faint=True)
    for index, name in enumerate(series if has_legend else ()):
        kind = len(SERIES) - 1 if name == _OTHERS else index
        y = floor + 30 + index * _LEGEND_ROW
        swatch = (float(_PLOT_LEFT), y, 22.0, 13.0)
        drawing.fill(box(*swatch), f"s{kind}", SERIES[kind])
        drawing.rule(hatching([swatch], kind), "paper", PAPER)
        drawing.text(_PLOT_LEFT + 30, y + 11, fitted(name, WIDTH - _PLOT_LEFT - 30))
    return drawing
