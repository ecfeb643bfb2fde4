"""The PDF's first page: how much, how sure, and what to fix first."""

from collections.abc import Iterator
from typing import Final

from reportlab.lib.enums import TA_RIGHT
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, Spacer

from detectors import charts
from detectors.contract import Finding, Report
from detectors.wording.actions import action_labels, how_long, title, with_savings
from detectors.wording.figures import percent, whole_usd
from detectors.wording.headline import first_actions, sentence
from detectors.wording.headline import tiles as headline_tiles
from detectors.wording.headline import title as headline_title
from detectors.wording.impact import how_sure, impact
from detectors.wording.projection import caution, observed, per_month
from service.reports.pdf.looks import (
    ACCENT,
    BODY,
    COVER_HEADING,
    FINDING,
    LEAD,
    QUIET,
    TEXT_WIDTH,
    TITLE,
    WARNING,
)
from service.reports.pdf.parts import drawing, line, side_by_side, tiles, words

_AMOUNT_SHARE: Final = 0.28
_CHART_SHARE, _NOTE_SHARE = 0.58, 0.36
_BRAND: Final = ParagraphStyle("brand", FINDING, textColor=ACCENT)
_WHOSE: Final = ParagraphStyle("whose", QUIET, alignment=TA_RIGHT, spaceAfter=0)
_CHANGE: Final = ParagraphStyle("change", BODY, fontName=FINDING.fontName, spaceAfter=0)
_AMOUNT: Final = ParagraphStyle("amount", _CHANGE, alignment=TA_RIGHT)
_WHERE: Final = ParagraphStyle("where", QUIET, spaceAfter=0)
_HOW_SURE: Final = ParagraphStyle("how sure", QUIET, spaceAfter=10)

_OVERLAP: Final = (
    "A call can trigger several findings; totals count each dollar once. Potential savings are for "
    "fixing each finding on its own. Fixing all verified and estimated findings would save {}."
)


def cover(report: Report, name: str, period: str) -> Iterator[Flowable]:
    """Yield the parts of the first page: whose report it is, and of which days, first."""
    audit = report.audit
    width = TEXT_WIDTH * _AMOUNT_SHARE * 2
    whose = [line(each, width, _WHOSE) for each in (name, period) if each]
    yield side_by_side([[[words("Tallystick", _BRAND)], whose]], _AMOUNT_SHARE * 2)
    headline = words(headline_title(report), TITLE)
    headline.outline = ("summary", "Summary", 0)
    yield headline
    if headline_title(report) != sentence(report):
        yield words(sentence(report), LEAD)
    if audit.first_call:
        yield words(observed(report), LEAD)
    if report.invalid_rows.count and audit.valid_pct < report.thresholds.warn_valid_pct:
        yield words(
            f"Only {percent(audit.valid_pct)} of the rows could be read. The figures "
            "exclude the others.",
            WARNING,
        )
    if caution(audit):
        yield words(caution(audit), WARNING)
    yield Spacer(1, 4)
    if audit.metered_calls:
        yield tiles(headline_tiles(report.audit))
    yield Spacer(1, 18)
    actions = first_actions(report)
    if actions:
        yield words(f"Fix {'this' if len(actions) == 1 else 'these'} first", COVER_HEADING)
        yield side_by_side([_action(finding, report) for finding in actions], _AMOUNT_SHARE)
        yield Spacer(1, 10)
        waterfall = drawing(charts.savings_waterfall(report), TEXT_WIDTH * _CHART_SHARE)
        note: list[Flowable] = []
        if len(with_savings(report.findings)) > 1:
            savings = f"{whole_usd(audit.projected_savings_usd)}{per_month(audit)}"
            note = [Spacer(1, 22), words(_OVERLAP.format(savings), QUIET)]
        yield side_by_side([[waterfall, note]], _NOTE_SHARE)


def _action(finding: Finding, report: Report) -> list[list[Flowable]]:
    """Return one row: what to change, where and how sure its savings are, beside the savings."""
    width = TEXT_WIDTH * (1 - _AMOUNT_SHARE)
    change = line(str(title(finding, report.methods)), width, _CHANGE)
    labels = action_labels(finding)
    where = [line(" · ".join(labels), width, _WHERE)] if labels else []
    sure = " · ".join(filter(None, (how_sure(finding), how_long(finding))))
    return [
        [change, *where, words(sure, _HOW_SURE)],
        [words(impact(finding, report.audit), _AMOUNT)],
    ]
