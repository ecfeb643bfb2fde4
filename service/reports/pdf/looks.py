"""Sizes, colors and styles of the PDF, matching the style sheet of the pages."""

from typing import Final

from reportlab.lib.colors import HexColor
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm

from service.reports.pdf.fonts import BOLD, PLAIN

PAGE: Final = A4
MARGIN: Final = 18 * mm
TEXT_WIDTH: Final = PAGE[0] - 2 * MARGIN

INK: Final = HexColor("#1d2025")
FAINT: Final = HexColor("#565d69")
LINE: Final = HexColor("#dcdcd6")
ACCENT: Final = HexColor("#0b6157")
TINT: Final = HexColor("#f2f6f5")
NOTE: Final = HexColor("#fff4d9")
SEVERITIES: Final = {
    "high": HexColor("#a32014"),
    "medium": HexColor("#7d4a00"),
    "low": HexColor("#4a5361"),
}


def _style(name: str, size: float, **options: object) -> ParagraphStyle:
    values: dict[str, object] = {
        "fontName": PLAIN,
        "fontSize": size,
        "leading": size * 1.4,
        "textColor": INK,
        "spaceAfter": size * 0.6,
        "splitLongWords": 1,
        **options,
    }
    return ParagraphStyle(name, **values)


BODY: Final = _style("body", 9.5)
QUIET: Final = _style("quiet", 8, textColor=FAINT)
LEAD: Final = _style("lead", 11.5, spaceAfter=12)
TITLE: Final = _style("title", 21, fontName=BOLD, leading=26, spaceBefore=18, spaceAfter=12)
HEADING: Final = _style("heading", 14, fontName=BOLD, spaceBefore=14, spaceAfter=8)
FINDING: Final = _style("finding", 10.5, fontName=BOLD, spaceBefore=6, spaceAfter=2)
IMPACT: Final = _style("impact", 10.5, fontName=BOLD, alignment=2, spaceBefore=6, spaceAfter=2)
_PADDING: Final = 6
# Indented by the padding, so that the background is as wide as the text of other paragraphs.
WARNING: Final = _style(
    "warning",
    9.5,
    backColor=NOTE,
    borderPadding=_PADDING,
    leftIndent=_PADDING,
    rightIndent=_PADDING,
    spaceBefore=8,
    spaceAfter=14,
)
TILE: Final = _style("tile", 13, fontName=BOLD, spaceAfter=0)
TILE_NAME: Final = _style("tile name", 8, textColor=FAINT, spaceAfter=0)
VALUE: Final = _style("value", 8.5, alignment=2, spaceAfter=0)
NAME: Final = _style("name", 8.5, textColor=FAINT, spaceAfter=0)
COVER_HEADING: Final = _style("cover heading", 9.5, fontName=BOLD, keepWithNext=1)
CHART_TITLE: Final = _style("chart title", 9.5, fontName=BOLD, keepWithNext=1)
