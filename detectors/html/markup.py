"""Building blocks of HTML: escaped text, tables, charts, and their style."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from detectors.charts import Chart
from detectors.charts.chart import FAINT, INK, PAPER, RULE
from detectors.contract import Finding
from detectors.wording.figures import counted
from detectors.wording.headline import Tile
from detectors.wording.impact import impact_range, seen
from detectors.wording.labels import inert
from detectors.wording.names import CONFIDENCE_WORDS, SEVERITY_WORDS

# Scoped to one class, so that the notebook's own page does not change.
STYLE: Final = (
    f".tallystick{{color:{INK};background:{PAPER};font:15px/1.5 sans-serif;padding:1em;"
    "max-width:60em;overflow-wrap:anywhere}"
    ".tallystick h1{font-size:1.4em;margin:0 0 .4em}.tallystick h2{font-size:1.15em}"
    ".tallystick h3{font-size:1em;margin:1.2em 0 .2em}"
    f".tallystick .quiet{{color:{FAINT}}}.tallystick figure{{margin:1em 0}}"
    ".tallystick figcaption{font-weight:bold;margin-bottom:.4em}"
    ".tallystick .tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(10em,1fr));"
    "gap:.8em 1.2em;margin:.8em 0}.tallystick .tiles .quiet{font-size:.87em}"
    ".tallystick .tiles p,.tallystick li p{margin:0}"
    ".tallystick .figure{font-size:1.5em;font-weight:bold}"
    ".tallystick svg{max-width:100%;height:auto}"
    ".tallystick table{border-collapse:collapse;font-size:.93em;margin:.6em 0}"
    f".tallystick th,.tallystick td{{text-align:left;padding:.25em .8em .25em 0;"
    f"border-bottom:1px solid {RULE};vertical-align:top;background:{PAPER};color:{INK}}}"
    # Labels may break anywhere, our own words only between words.
    ".tallystick table{overflow-wrap:normal}.tallystick td bdi{overflow-wrap:anywhere}"
    ".tallystick .num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
)


def cell(body: str) -> str:
    return f'<div class="tallystick"><style>{STYLE}</style>{body}</div>'


def text(words: str) -> str:
    """Escape words that may contain a label, so that they cannot affect the page."""
    return f"<bdi>{escape(inert(words))}</bdi>"


def own(words: str) -> str:
    return escape(inert(words))


def show_tiles(tiles: Iterable[Tile]) -> str:
    cells = "".join(
        f'<div><p class="quiet">{escape(tile.label)}</p><p class="figure">{escape(tile.value)}</p>'
        f'<p class="quiet">{escape(tile.aside)}</p></div>'
        for tile in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def paragraph(words: str, name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return f"<p{kind}>{escape(inert(words))}</p>"


def table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()
) -> str:
    """Build a table of cells that are already HTML; `numbers` are the numeric columns."""
    right = frozenset(numbers)
    marks = [' class="num"' if index in right else "" for index in range(len(headings))]
    head = "".join(
        f'<th scope="col"{mark}>{escape(name)}</th>'
        for name, mark in zip(headings, marks, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{mark}>{content}</td>" for content, mark in zip(row, marks, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(chart: Chart) -> str:
    rows = [[text(content) for content in row] for row in chart.rows]
    numbers = table(chart.columns, rows, range(1, len(chart.columns)))
    return (
        f"<figure><figcaption>{escape(chart.title)}</figcaption>{chart.svg}"
        f"<details><summary>Data</summary>{numbers}</details></figure>"
    )


def route_of(finding: Finding) -> str:
    labels = [finding.route, *([] if finding.route == finding.model else [finding.model])]
    return " · ".join(map(text, labels))


def marks(finding: Finding) -> str:
    """Return the line below a finding's name: ID, severity, confidence, range, calls."""
    severity = SEVERITY_WORDS.get(finding.severity, finding.severity)
    meaning = CONFIDENCE_WORDS.get(finding.confidence, "")
    words = f"{finding.id} · {finding.detector} · {severity} · {finding.confidence.lower()}"
    words += f" ({meaning})" if meaning else ""
    between = impact_range(finding)
    words += f" · range {between}" if between else ""
    words += f" · {counted(finding.calls, 'call')} · {finding.provider}"
    when = seen(finding)
    return escape(f"{words} · {when}" if when else words)
