"""Draws times per call against the size of the log, both logarithmic, as SVG."""

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10
from typing import Final

from benchmarks.growth.programs import AUDIT, LOOP, PANDAS, READ, Row

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 64, 184, 40, 56
LABEL_HEIGHT: Final = 18
# Dashes tell the lines apart without color.
DASHES: Final = {AUDIT: "", READ: "2 4", LOOP: "8 4", PANDAS: "12 4 2 4"}
_STYLE: Final = """
text { font: 14px sans-serif; fill: #23272f }
.grid { stroke: #d5d9df; fill: none }
.line { fill: none; stroke-width: 2.5 }
.s0 { stroke: #0b6157 } .s1 { stroke: #3f5a9a } .s2 { stroke: #8a4a12 } .s3 { stroke: #7a3b8f }
circle { fill: #ffffff; stroke-width: 2 }
.paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e6e8eb }
  .grid { stroke: #3d444d }
  .s0 { stroke: #5fc9b6 } .s1 { stroke: #93aef0 } .s2 { stroke: #e09a5b } .s3 { stroke: #cf95e0 }
  .paper, circle { fill: #15181d }
}
"""


def draw(rows: Sequence[Row]) -> str:
    """Return a chart with a line per program; a program stops where it took too long.

    Rows are in the order of their sizes, at least one of them.
    """
    known = [each for row in rows for each in row.microseconds.values() if each]
    sizes = _decades([row.calls for row in rows])
    times = _decades(known)
    marks = [*_grid(sizes, times)]
    ends = []
    for index, name in enumerate(DASHES):
        points = [
            (_x(row.calls, sizes), _y(taken, times))
            for row in rows
            if (taken := row.microseconds.get(name))
        ]
        if points:
            marks += _line(points, index, DASHES[name])
            ends.append((points[-1][1], points[-1][0], name))
    marks += _labels(ends)
    title = "Microseconds per call, by the number of calls in the log"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<text x="16" y="24">{title}</text>\n' + "\n".join(marks) + "\n</svg>\n"
    )


def _decades(values: Sequence[float]) -> range:
    """Return the powers of ten that enclose the values, two at least."""
    first, last = floor(log10(min(values))), ceil(log10(max(values)))
    return range(first, max(last, first + 1) + 1)


def _x(calls: float, decades: range) -> float:
    share = (log10(calls) - decades[0]) / (len(decades) - 1)
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(microseconds: float, decades: range) -> float:
    share = (log10(microseconds) - decades[0]) / (len(decades) - 1)
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _grid(sizes: range, times: range) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    marks = []
    for power in times:
        y = _y(10.0**power, times)
        marks.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        marks.append(
            f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{10.0**power:g}</text>'
        )
    for power in sizes:
        x = _x(10.0**power, sizes)
        marks.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>')
        marks.append(
            f'<text x="{x:.1f}" y="{bottom + 22}" text-anchor="middle">{10**power:,}</text>'
        )
    return marks


def _line(points: Sequence[tuple[float, float]], index: int, dashes: str) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return [
        f'<path class="line s{index}"{dashed} d="M{path}"/>',
        *(f'<circle class="s{index}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points),
    ]


def _labels(ends: Sequence[tuple[float, float, str]]) -> list[str]:
    """Write each program's name at the end of its line, none over another."""
    marks, last = [], -LABEL_HEIGHT * 1.0
    for y, x, name in sorted(ends):
        last = max(y + 5, last + LABEL_HEIGHT)
        marks.append(f'<text x="{x + 12:.1f}" y="{last:.1f}">{escape(name)}</text>')
    return marks
