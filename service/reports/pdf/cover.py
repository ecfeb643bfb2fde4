"""The PDF's first page: how much, how sure, and what to fix first."""

from collections.abc import Iterator
from typing import Final

from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, Spacer

from detectors import charts
from detectors.contract import Finding, Report
from detectors.wording.figures import percent, usd
from detectors.wording.headline import first_actions, sentence
from detectors.wording.headline import tiles as headline_tiles
from detectors.wording.impact import impact
from detectors.wording.names import CONFIDENCE_WORDS, detector_name
from detectors.wording.projection import caution, observed, per_month
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

_CHART_SHARE, _FIRST_SHARE = 0.58, 0.36
_BRAND: Final = ParagraphStyle("brand", FINDING, textColor=ACCENT)
_AMOUNT: Final = ParagraphStyle("amount", BODY, fontName=FINDING.fontName, spaceAfter=0)
_CONFIDENCE: Final = ParagraphStyle("confidence", QUIET, spaceAfter=10)
_NAME: Final = ParagraphStyle("name", BODY, spaceAfter=0)
_ROUTE: Final = ParagraphStyle("route", QUIET, spaceAfter=0)

_OVERLAP: Final = (
    "A call can trigger several findings; totals count each dollar once. Potential savings are for "
    "fixing each finding on its own. Fixing all verified and estimated findings would save {}."
)


def cover(report: Report) -> Iterator[Flowable]:
    """Yield the parts of the first page."""
    audit = report.audit
    yield words("Tallystick", _BRAND)
    title = words(sentence(report), TITLE)
    title.outline = ("summary", "Summary", 0)
    yield title
    if audit.first_call:
        yield words(observed(report), LEAD)
    yield from _warnings(report)
    yield Spacer(1, 4)
    if audit.records:
        yield tiles(headline_tiles(report))
    yield Spacer(1, 18)
    if first_actions(report):
        waterfall = drawing(charts.savings_waterfall(report), TEXT_WIDTH * _CHART_SHARE)
        yield side_by_side([[waterfall, list(_first(report))]], _FIRST_SHARE)
    if len(report.findings) > 1:
        savings = f"{usd(audit.projected_savings_usd)}{per_month(audit)}"
        yield words(_OVERLAP.format(savings), QUIET)


def _first(report: Report) -> Iterator[Flowable]:
    """List the most valuable findings, in four lines each."""
    yield words("Fix these first", CHART_TITLE)
    for finding in first_actions(report):
        route = finding.route if finding.route == finding.model else _route_and_model(finding)
        yield words(detector_name(finding.detector, report.methods), _NAME)
        yield words(fitted(route, TEXT_WIDTH * _FIRST_SHARE, _ROUTE.fontSize), _ROUTE)
        yield words(impact(finding, report.audit), _AMOUNT)
        confidence = CONFIDENCE_WORDS.get(finding.confidence, "")
        yield words(f"{finding.confidence.lower()}: {confidence}", _CONFIDENCE)


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
    if caution(audit):
        yield words(caution(audit), WARNING)
