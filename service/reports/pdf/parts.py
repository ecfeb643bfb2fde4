"""Building blocks of the PDF: paragraphs, tiles, tables, charts."""

from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final
from xml.sax.saxutils import escape

from reportlab.lib.colors import Color
from reportlab.lib.styles import ParagraphStyle
from reportlab.platypus import Flowable, LongTable, Spacer, Table
from svglib.svglib import svg2rlg

from detectors.charts import Chart
from detectors.wording.headline import Tile
from service.reports.pdf.fonts import BOLD, PLAIN, fitted, printable
from service.reports.pdf.looks import (
    ACCENT,
    BODY,
    CHART_TITLE,
    FAINT,
    HEADING,
    INK,
    LINE,
    NAME,
    QUIET,
    TEXT_WIDTH,
    TILE,
    TILE_NAME,
    TINT,
    VALUE,
)
from service.reports.pdf.tags import Figure, Text, tag_layout, tag_table

_ROW_HEIGHT: Final = 13.0
_ROW_SIZE: Final = 7.5
_PADDING: Final = 4.0
# Every table names a font in the file, and reportlab's default font is not embedded.
OWN_FONT: Final = ("FONT", (0, 0), (-1, -1), PLAIN, _ROW_SIZE)
PLAIN_CELLS: Final = (
    OWN_FONT,
    ("LEFTPADDING", (0, 0), (-1, -1), 0),
    ("RIGHTPADDING", (0, 0), (-1, -1), 0),
)


def words(text: str, style: ParagraphStyle = BODY) -> Text:
    """Build a paragraph; markup in the text is escaped."""
    return Text(escape(printable(text)), style)


def line(text: str, width: float, style: ParagraphStyle) -> Text:
    """Build a paragraph of one line, shortened to fit."""
    return Text(escape(fitted(text, width, style.fontSize)), style)


def heading(text: str, key: str) -> Text:
    """Build a heading with an entry in the outline."""
    paragraph = Text(escape(printable(text)), HEADING)
    paragraph.outline = (key, text, 0)
    return paragraph


def colored(before: str, text: str, after: str, color: Color) -> Text:
    """Build a paragraph in small print with words of another color."""
    before, text, after = (escape(printable(each)) for each in (before, text, after))
    return Text(f'{before}<font color="{color.hexval()}">{text}</font>{after}', QUIET)


def linked(text: str, url: str) -> Text:
    """Build a paragraph that ends with an address, which is a link."""
    address = escape(url, {'"': "&quot;"})
    return Text(f'{escape(text)}<a href="{address}" color="{ACCENT.hexval()}">{address}</a>', BODY)


def side_by_side(rows: Sequence[Sequence[list[Flowable]]], right: float) -> Table:
    """Build two columns; `right` is the right column's share of the width."""
    widths = [TEXT_WIDTH * (1 - right), TEXT_WIDTH * right]
    top = ("VALIGN", (0, 0), (-1, -1), "TOP")
    style = (*PLAIN_CELLS, top)
    return Table(rows, colWidths=widths, style=style, hAlign="LEFT", renderCB=tag_layout)


def name_values(rows: Sequence[tuple[str, str]], width: float) -> Table:
    """Build a list of names and values, one line each."""
    cells = [[words(name, NAME), words(value, VALUE)] for name, value in rows]
    style = (*PLAIN_CELLS, ("LINEBELOW", (0, 0), (-1, -1), 0.5, LINE))
    widths = [width * 0.55, width * 0.45]
    return Table(cells, colWidths=widths, style=style, hAlign="LEFT", renderCB=tag_layout)


def tiles(shown: Sequence[Tile]) -> Table:
    """Build tiles side by side, each a number under its name."""
    cells = [
        [words(each.label, TILE_NAME), words(each.value, TILE), words(each.aside, TILE_NAME)]
        for each in shown
    ]
    widths = [TEXT_WIDTH / len(cells)] * len(cells)
    table = Table([cells], colWidths=widths, renderCB=tag_layout)
    table.setStyle(
        [
            OWN_FONT,
            ("BACKGROUND", (0, 0), (-1, -1), TINT),
            ("VALIGN", (0, 0), (-1, -1), "TOP"),
            ("LINEAFTER", (0, 0), (-2, -1), 3, "white"),
            ("TOPPADDING", (0, 0), (-1, -1), 8),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 8),
        ]
    )
    return table


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]], shares: Sequence[int]) -> Any:
    """Build a table of one line per row, cells shortened to fit; the last column is numeric."""
    widths = [TEXT_WIDTH * share / sum(shares) for share in shares]
    cells = [
        [
            fitted(cell, width - 2 * _PADDING, _ROW_SIZE)
            for cell, width in zip(row, widths, strict=True)
        ]
        for row in rows
    ]
    table = LongTable(
        [list(columns), *cells],
        colWidths=widths,
        rowHeights=[_ROW_HEIGHT] * (len(rows) + 1),
        repeatRows=1,
        renderCB=tag_table,
    )
    table.setStyle(
        [
            OWN_FONT,
            ("FONT", (0, 0), (-1, 0), BOLD, _ROW_SIZE),
            ("TEXTCOLOR", (0, 0), (-1, 0), FAINT),
            ("TEXTCOLOR", (0, 1), (-1, -1), INK),
            ("LINEBELOW", (0, 0), (-1, -1), 0.5, LINE),
            ("ALIGN", (-1, 0), (-1, -1), "RIGHT"),
            ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ("LEFTPADDING", (0, 0), (-1, -1), _PADDING),
            ("RIGHTPADDING", (0, 0), (-1, -1), _PADDING),
            ("TOPPADDING", (0, 0), (-1, -1), 0),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 0),
        ]
    )
    return table


def drawing(chart: Chart, width: float) -> list[Flowable]:
    """Build a chart with its title and summary; its text is searchable."""
    svg = printable_svg(chart.svg)
    picture: Any = svg2rlg(BytesIO(svg.encode()))
    scale = width / picture.width
    picture.width, picture.height = width, picture.height * scale
    picture.scale(scale, scale)
    figure = Figure(picture, f"{chart.title}. {chart.summary}")
    return [words(chart.title, CHART_TITLE), figure, Spacer(1, 4), words(chart.summary, QUIET)]


def printable_svg(svg: str) -> str:
    """Return the chart's SVG with our fonts."""
    return printable(svg).replace('font-family="sans-serif"', f'font-family="{PLAIN}"')
