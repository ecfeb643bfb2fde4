"""The parts of a chart: a drawing of fixed width, its texts, and its data."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape
from typing import Final
from unicodedata import category, east_asian_width

from detectors.wording.labels import inert

WIDTH: Final = 400  # small enough that its text can be read on a phone
TEXT_SIZE: Final = 14
INK: Final = "#23272f"
FAINT: Final = "#5a6270"
RULE: Final = "#d5d9df"
PAPER: Final = "#ffffff"
# Eight that differ in normal and in color-blind sight, and a gray for all others.
SERIES: Final = (
    *("#0b7a6b", "#d57f1e", "#344e6e", "#ad70f0", "#6d1b14", "#44a1a1", "#3a136f", "#8647b6"),
    "#c3c9d1",
)
LOSS: Final = "#b34700"
# The size of a line in a cell of a table; a page stretches it.
_SPARK_WIDTH: Final = 100
_SPARK_HEIGHT: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its data; all columns but the first are numbers."""

    name: str
    title: str
    summary: str
    svg: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(slots=True)
class Drawing:
    """Marks in the order of drawing, from the top left corner."""

    height: float
    marks: list[str] = field(default_factory=list)

    def text(
        self, x: float, y: float, words: str, *, end: bool = False, faint: bool = False
    ) -> None:
        anchor = ' text-anchor="end"' if end else ""
        name, fill = ("faint", FAINT) if faint else ("ink", INK)
        self.marks.append(
            f'<text class="{name}" x="{pixels(x)}" y="{pixels(y)}" fill="{fill}"{anchor}>'
            f"{escape(words)}</text>"
        )

    def fill(self, outline: str, name: str, color: str) -> None:
        if outline:
            self.marks.append(f'<path class="{name}" fill="{color}" d="{outline}"/>')

    def rule(self, lines: str, name: str, color: str, width: float = 1) -> None:
        if lines:
            self.marks.append(
                f'<path class="{name}" fill="none" stroke="{color}" '
                f'stroke-width="{width:g}" d="{lines}"/>'
            )

    def svg(self, name: str, title: str, summary: str) -> str:
        height = pixels(self.height)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" '
            f'aria-labelledby="{name}-title {name}-summary" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="{TEXT_SIZE}">'
            f'<title id="{name}-title">{escape(title)}</title>'
            f'<desc id="{name}-summary">{escape(summary)}</desc>'
            f"{''.join(self.marks)}</svg>"
        )


def pixels(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def fitted(label: str, room: float) -> str:
    text, used = inert(label), 0.0
    for index, character in enumerate(text):
        # An upper estimate of the character's width, because fonts differ.
        if category(character) in ("Mn", "Me"):  # drawn over or under the one before
            em = 0.0
        elif east_asian_width(character) in "WF":
            em = 1.05
        elif character in "mwMW@%" or not character.isascii():
            em = 0.9
        else:
            em = 0.68 if character.isupper() or character.isdigit() else 0.56
        used += em * TEXT_SIZE
        if used > room:
            return f"{text[: max(index - 1, 1)].rstrip()}…"
    return text


def ceiling(largest: float) -> float:
    """Return the next round number that is not less than the largest value."""
    if largest <= 0:
        return 1.0
    size = 10.0 ** (len(f"{largest:.0f}") - 1) if largest >= 1 else 1.0
    while largest < size:
        size /= 10
    return next(size * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if size * step >= largest)


def box(x: float, y: float, width: float, height: float) -> str:
    left, top, wide, high = (pixels(each) for each in (x, y, width, height))
    return f"M{left} {top}h{wide}v{high}h-{wide}z"


def horizontal(x: float, y: float, width: float) -> str:
    return f"M{pixels(x)} {pixels(y)}h{pixels(width)}"


def vertical(x: float, y: float, height: float) -> str:
    return f"M{pixels(x)} {pixels(y)}v{pixels(height)}"


def hatching(boxes: Iterable[tuple[float, float, float, float]], kind: int) -> str:
    """Return lines inside rectangles, which identify a series without color."""
    lines = []
    for x, y, width, height in boxes:
        if kind in _ACROSS:
            step = 4 if kind in _DENSE else 6
            lines += [horizontal(x, y + at, width) for at in range(step, int(height), step)]
        if kind in _DOWN and height >= 1:
            count = 2 if width >= 6 else 1
            step_x = width / (count + 1)
            lines += [vertical(x + step_x * index, y, height) for index in range(1, count + 1)]
    return "".join(lines)


_ACROSS: Final = frozenset({1, 4})
_DOWN: Final = frozenset({2, 4})
_DENSE: Final = frozenset({4})


def sparkline(amounts: Sequence[Decimal]) -> str:
    """Return the outline of a line over the amounts, from 0 at the bottom, clear of the edges."""
    top = float(max(amounts, default=Decimal(0))) or 1.0
    step = _SPARK_WIDTH / max(len(amounts) - 1, 1)
    heights = [pixels(_SPARK_HEIGHT - 1 - float(each) / top * 18) for each in amounts]
    if len(heights) == 1:
        heights *= 2
    return "".join(
        f"{'L' if at else 'M'}{pixels(at * step)} {height}" for at, height in enumerate(heights)
    )
