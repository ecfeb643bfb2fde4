"""A waterfall from monthly spend to remaining spend, with a step for each detector."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from detectors.charts.bars import BAR, ROW, label_row, share
from detectors.charts.chart import (
    FAINT,
    LOSS,
    SERIES,
    WIDTH,
    Chart,
    Drawing,
    box,
    vertical,
)
from detectors.contract import Report
from detectors.wording.figures import as_whole_usd, percent, whole_usd
from detectors.wording.names import detector_name
from detectors.wording.projection import is_monthly, per_month

_LEAST_WHOLE: Final = Decimal(10)
_FIXES: Final = "verified and estimated fixes"


@dataclass(frozen=True, slots=True)
class _Step:
    label: str
    alone: Decimal | None  # potential savings of the detector alone; None for a total
    low: Decimal
    high: Decimal
    amount: Decimal


def savings_waterfall(report: Report) -> Chart:
    steps = list(_steps(report))
    audit = report.audit
    # The only sum in documents of earlier versions includes every finding.
    fixes = "fixing each finding" if audit.verified_savings_usd is None else _FIXES
    title = f"{'Monthly spend' if is_monthly(audit) else 'Spend'} after {fixes}"
    summary = (
        f"{whole_usd(audit.projected_spend_usd)}{per_month(audit)} now; avoidable spend: "
        f"{whole_usd(audit.projected_savings_usd)}; remaining spend: {whole_usd(steps[-1].amount)}."
    )
    drawing = Drawing(height=len(steps) * ROW)
    largest = float(max(step.high for step in steps)) or 1.0
    for index, step in enumerate(steps):
        top, start = index * ROW, float(step.low) / largest * WIDTH
        width = max(float(step.high - step.low) / largest * WIDTH, 1)
        label_row(drawing, top, step.label, whole_usd(step.amount))
        bar = (min(start, WIDTH - width), top + 20.0, width, float(BAR))
        if step.alone is None:
            drawing.fill(box(*bar), "s0", SERIES[0])
        else:
            drawing.fill(box(*bar), "loss", LOSS)
        if index + 1 < len(steps):
            # A line from the end of this bar to the start of the next.
            edge = step.high if step.alone is None else step.low
            at = min(max(float(edge) / largest * WIDTH, 0.5), WIDTH - 0.5)
            drawing.rule(vertical(at, top + 20 + BAR, 7), "rule", FAINT)
    return Chart(
        name="savings",
        title=title,
        summary=summary,
        svg=drawing.svg("savings", title, summary),
        columns=("Step", "On its own", "In this order", "Share of spend"),
        rows=tuple(
            (
                *(
                    step.label,
                    "" if step.alone is None else whole_usd(-step.alone),
                    whole_usd(step.amount),
                ),
                percent(share(step.high - step.low, audit.projected_spend_usd)),
            )
            for step in steps
        ),
    )


def _steps(report: Report) -> Iterator[_Step]:
    audit = report.audit
    left = audit.projected_spend_usd
    printed = as_whole_usd(left)
    yield _Step("Current spend", None, Decimal(0), left, left)
    for savings in report.savings_by_detector:
        if savings.composed_usd:  # conditional savings are not part of the total
            after = max(left - savings.composed_usd, Decimal(0))
            label = detector_name(savings.detector, report.methods)
            low, high = sorted((left, after))
            yield _Step(label, savings.alone_usd, low, high, -savings.composed_usd)
            left, printed = after, printed - as_whole_usd(savings.composed_usd)
    remaining = audit.projected_spend_usd - audit.projected_savings_usd
    # Whole dollars are what remains of the ones above, unless the savings are limited to the spend.
    adds_up = abs(left - remaining) < 1 and min(printed, remaining) >= _LEAST_WHOLE
    yield _Step("Remaining spend", None, Decimal(0), remaining, printed if adds_up else remaining)
