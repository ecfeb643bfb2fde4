"""The embedded fonts, and what stands for characters that they lack."""

import re
from functools import cache
from pathlib import Path
from typing import Final

from reportlab.lib.fonts import addMapping
from reportlab.pdfbase.pdfmetrics import getFont, stringWidth
from svglib.fonts import get_global_font_map

from detectors.labels import inert, is_right_to_left

PLAIN: Final = "Tallystick"
BOLD: Final = "Tallystick-Bold"
_FOLDER: Final = Path(__file__).parents[2] / "fonts"
_FILES: Final = {
    PLAIN: _FOLDER / "DejaVuSansCondensed.ttf",
    BOLD: _FOLDER / "DejaVuSansCondensed-Bold.ttf",
}
_LAST_OF_FIRST_PLANE: Final = 0xFFFF
_MISSING: Final = "\N{WHITE SQUARE}"
# Hebrew and Arabic words, which are read from the right and drawn from the left.
_TURNED: Final = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]+(?: [\u0590-\u08ff]+)*")


@cache
def register_fonts() -> None:
    """Once a process: reading the fonts takes longer than printing a report."""
    for name, path in _FILES.items():
        # This one registers it with the PDF's own library as well.
        get_global_font_map().register_font(name, str(path), rlgFontName=name)
    for is_bold in (0, 1):
        for is_italic in (0, 1):
            addMapping(PLAIN, is_bold, is_italic, BOLD if is_bold else PLAIN)


def printable(text: str) -> str:
    """The text as both fonts can print it; what they lack is shown as a square."""
    glyphs = _glyphs()
    shown = "".join(one if ord(one) in glyphs else _MISSING for one in inert(text))
    return _TURNED.sub(lambda run: run[0][::-1], shown) if is_right_to_left(shown) else shown


@cache
def _glyphs() -> frozenset[int]:
    register_fonts()
    plain, bold = (frozenset(getFont(name).face.charToGlyph) for name in _FILES)
    # The library writes no valid Unicode for characters of the higher planes: none could be found.
    return frozenset(one for one in plain & bold if one <= _LAST_OF_FIRST_PLANE)


def fitted(text: str, width: float, size: float) -> str:
    """The text, cut with an ellipsis where it is wider than that."""
    text = printable(text)
    if stringWidth(text, PLAIN, size) <= width:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        wide = stringWidth(f"{text[:middle].rstrip()}…", PLAIN, size)
        low, high = (middle, high) if wide <= width else (low, middle - 1)
    return f"{text[:low].rstrip()}…"
