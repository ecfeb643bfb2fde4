"""The PDF's first page: spend, avoidable spend, and what to fix first."""

from collections.abc import Iterator
from typing import Final

from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, Spacer

from detectors import charts
from detectors.contract import Finding, Report
from detectors.wording.figures import counted, number, percent, period, usd
from detectors.wording.headline import sentence
from detectors.wording.names import detector_name
from service.reports.pdf.fonts import fitted
from service.reports.pdf.looks import (
    ACCENT,
    BODY,
    CHART_TITLE,
    FINDING,
    LEAD,
    QUIET,
    TEXT_WIDTH,
    TITLE,
    WARNING,
)
from service.reports.pdf.parts import drawing, side_by_side, tiles, words

_FIRST_FINDINGS: Final = 4
_CHART_SHARE, _FIRST_SHARE = 0.58, 0.36
_BRAND: Final = ParagraphStyle("brand", FINDING, textColor=ACCENT)
_DOLLARS: Final = ParagraphStyle("dollars", BODY, fontName=FINDING.fontName, spaceAfter=10)
_NAME: Final = ParagraphStyle("name", BODY, spaceAfter=0)
_ROUTE: Final = ParagraphStyle("route", QUIET, spaceAfter=0)

_OVERLAP: Final = (
    "A call can trigger several findings; totals count each dollar once. Potential savings are for "
    "fixing each finding on its own. Fixing all of them would save {}/month."
)


def cover(report: Report) -> Iterator[Flowable]:
    """Yield the parts of the first page."""
    audit = report.audit
    yield words("Tallystick", _BRAND)
    title = words(sentence(report), TITLE)
    title.outline = ("summary", "Summary", 0)
    yield title
    if audit.first_call:
        yield words(_period(report), LEAD)
    yield from _warnings(report)
    yield Spacer(1, 4)
    yield tiles(
        [
            ("Monthly spend", usd(audit.projected_spend_usd)),
            ("Avoidable spend", usd(audit.projected_savings_usd)),
            ("Share of spend", percent(audit.savings_pct)),
            ("Findings", number(len(report.findings))),
        ]
    )
    yield Spacer(1, 18)
    if audit.projected_savings_usd:
        waterfall = drawing(charts.savings_waterfall(report), TEXT_WIDTH * _CHART_SHARE)
        yield side_by_side([[waterfall, list(_first(report))]], _FIRST_SHARE)
    if len(report.findings) > 1:
        yield words(_OVERLAP.format(usd(audit.projected_savings_usd)), QUIET)


def _period(report: Report) -> str:
    audit = report.audit
    when = period(str(audit.first_call), str(audit.last_call or audit.first_call))
    return (
        f"Based on {counted(audit.records, 'call')} ({when}): {usd(audit.total_spend_usd)} in "
        f"{counted(audit.observed_days, 'observed day')}, projected to "
        f"{report.thresholds.days_per_month} days."
    )


def _first(report: Report) -> Iterator[Flowable]:
    """List the largest findings, in three lines each."""
    yield words("Fix these first", CHART_TITLE)
    for finding in report.findings[:_FIRST_FINDINGS]:
        route = finding.route if finding.route == finding.model else _route_and_model(finding)
        yield words(detector_name(finding.detector, report.methods), _NAME)
        yield words(fitted(route, TEXT_WIDTH * _FIRST_SHARE, _ROUTE.fontSize), _ROUTE)
        yield words(f"{usd(finding.monthly_cost_impact_usd)}/month", _DOLLARS)


def _route_and_model(finding: Finding) -> str:
    return f"{finding.route} · {finding.model}"


def _warnings(report: Report) -> Iterator[Flowable]:
    audit = report.audit
    if report.invalid_rows.count and audit.valid_pct < report.thresholds.warn_valid_pct:
        yield words(
            f"Only {percent(audit.valid_pct)} of the rows could be read. The figures "
            "exclude the others.",
            WARNING,
        )
    if audit.equiv_spend:
        yield words(
            "Some of these calls were made on a flat-rate plan or through an unknown provider. "
            "Their dollars are the list-price cost, not a bill."
        )
    if report.unpriced:
        models = len(report.unpriced) + report.other_unpriced.count
        calls = sum(model.calls for model in report.unpriced) + report.other_unpriced.calls
        yield words(
            f"Not priced: {counted(calls, 'call has', 'calls have')} no known price and "
            f"{'is' if calls == 1 else 'are'} excluded from dollar figures "
            f"({counted(models, 'model')})."
        )
