"""The embedded fonts, and replacements for characters that they lack."""

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum, auto
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from arabic_reshaper import ArabicReshaper
from bidi import get_display
from reportlab.graphics.shapes import STATE_DEFAULTS
from reportlab.lib.fonts import addMapping
from reportlab.pdfbase.pdfmetrics import getFont, stringWidth
from reportlab.pdfbase.ttfonts import TTFont
from svglib.fonts import get_global_font_map

from detectors.wording.labels import inert, is_right_to_left, unlinked

PLAIN: Final = "Tallystick"
BOLD: Final = "Tallystick-Bold"
FOLDER: Final = Path(__file__).parent / "fonts"
_FILES: Final = {
    PLAIN: FOLDER / "DejaVuSansCondensed.ttf",
    BOLD: FOLDER / "DejaVuSansCondensed-Bold.ttf",
}
_FLAG: Final = re.compile("[\U0001f1e6-\U0001f1ff]{2}")
_BEFORE_FLAG_LETTERS: Final = 0x1F1E6 - ord("A")
_MOST_NAMED: Final = 12  # unprintable characters in a row
# Hebrew and Arabic words, with the joiners in them.
_RIGHT_TO_LEFT: Final = re.compile(
    r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff][\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u200c\u200d]*"
    r"(?: [\u0590-\u08ff][\u0590-\u08ff\u200c\u200d]*)*"
)
# Joiners that have no effect without the letters or pictures that the fonts lack.
_LOOSE_JOINER: Final = re.compile(r"(?<![\u0590-\u08ff])[\u200c\u200d]")
_JOINER: Final = re.compile(r"[\u200c\u200d]")


@cache
def register_fonts() -> None:
    """Register the fonts once per process: reading them takes longer than rendering a report."""
    for name, path in _FILES.items():
        # svglib registers the font with reportlab as well.
        get_global_font_map().register_font(name, str(path), rlgFontName=name)
        Face.take_over(getFont(name))
    for is_bold in (0, 1):
        for is_italic in (0, 1):
            addMapping(PLAIN, is_bold, is_italic, BOLD if is_bold else PLAIN)
    # The default font of drawings, which is written to the file even if unused, must be embedded.
    STATE_DEFAULTS["fontName"] = PLAIN


class _Kind(Enum):
    PRINTED = auto()
    PICTURE = auto()
    LETTER = auto()


def printable(text: str) -> str:
    """Return the text with printable characters only, in drawing order."""
    return _arranged(named(text))


def _arranged(shown: str) -> str:
    return _RIGHT_TO_LEFT.sub(_arrange, shown) if is_right_to_left(shown) else shown


def _arrange(words: re.Match[str]) -> str:
    """Join the letters of right-to-left words, and put them into the order in which they are drawn.

    reportlab draws each character as it is, from the left.
    """
    joined = (
        form if _is_drawn(form) else unicodedata.normalize("NFKC", form)
        for form in _reshaper().reshape(words[0])
    )
    drawn: str = get_display(_JOINER.sub("", "".join(joined)), base_dir="R")
    return drawn


@cache
def _reshaper() -> ArabicReshaper:
    return ArabicReshaper({"delete_harakat": False})


def named(text: str) -> str:
    """Replace characters that the fonts lack: [grinning face], [flag CH], [U+6F22 U+5B57].

    Addresses get a space, because a label must not become a link.
    """
    shown = unlinked(inert(text))
    if shown.isascii():
        return shown
    shown = _LOOSE_JOINER.sub("", shown)
    shown = _FLAG.sub(
        lambda flag: f"[flag {''.join(chr(ord(each) - _BEFORE_FLAG_LETTERS) for each in flag[0])}]",
        shown,
    )
    runs = groupby(shown, _kind)
    return "".join(_name(kind, "".join(run)) for kind, run in runs)


def _kind(character: str) -> _Kind:
    if _is_drawn(character):
        return _Kind.PRINTED
    is_picture = unicodedata.category(character).startswith("S")
    return _Kind.PICTURE if is_picture else _Kind.LETTER


def _name(kind: _Kind, run: str) -> str:
    """Return names for emoji and code points for letters, whose names would not help."""
    if kind is _Kind.PRINTED:
        return run
    points = [f"U+{ord(character):04X}" for character in run[:_MOST_NAMED]]
    words = " ".join(points)
    if kind is _Kind.PICTURE:
        words = ", ".join(map(str.lower, map(unicodedata.name, run, points)))
    more = f" … {len(run):,} characters" if len(run) > _MOST_NAMED else ""
    return f"[{words}{more}]"


@lru_cache(maxsize=10_000)
def _is_drawn(character: str) -> bool:
    register_fonts()
    return all(getFont(name).can_draw(character) for name in _FILES)


def fitted(text: str, width: float, size: float) -> str:
    """Shorten the text to the width, with an ellipsis."""
    text = named(text)
    whole = _arranged(text)
    if stringWidth(whole, PLAIN, size) <= width:
        return whole
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        wide = stringWidth(f"{_arranged(text[:middle].rstrip())}…", PLAIN, size)
        low, high = (middle, high) if wide <= width else (low, middle - 1)
    return f"{_arranged(text[:low].rstrip())}…"


_OTHERS: Final = {
    "Tallystick-Thai": FOLDER / "Waree.ttf",
    "Tallystick-CJK": FOLDER / "WenQuanYiMicroHei.ttc",
}
_LAST_OF_FIRST_PLANE: Final = 0xFFFF
_OWN: Final = 0
_MOST_SUBSETS: Final = 1_000  # of 256 characters each, in one font: more than it can have


class Face(TTFont):  # type: ignore[misc]  # reportlab has no types
    """A TrueType font for reportlab that draws what it lacks with the other fonts."""

    @classmethod
    def take_over(cls, font: TTFont) -> None:
        """Make a registered font one of these.

        svglib draws only with fonts that it registered itself, and reportlab keeps the first font
        of a name; to read the file again would take a tenth of a report's time.
        """
        font.__class__ = cls

    def can_draw(self, character: str) -> bool:
        """Say whether this or another font has the character."""
        code = ord(character)
        # reportlab writes invalid Unicode for higher planes, so that text could not be searched.
        return code <= _LAST_OF_FIRST_PLANE and (_has(self, code) or self._place(character) != _OWN)

    def stringWidth(self, text: str, size: float, encoding: str = "utf8") -> float:
        """Return the width in points."""
        if text.isascii():  # a report measures 20,000 words
            return float(super().stringWidth(text, size))
        widths = (self._font(place).stringWidth(run, size) for place, run in self._runs(text))
        return float(sum(widths))

    def splitString(self, text: str, doc: Any, encoding: str = "utf-8") -> list[tuple[int, bytes]]:
        """Return (subset, characters) for the parts of the text that one font draws."""
        return [
            (place * _MOST_SUBSETS + subset, characters)
            for place, run in self._runs(text)
            for subset, characters in self._font(place).splitString(run, doc)
        ]

    def getSubsetInternalName(self, subset: int, doc: Any) -> str:
        """Return the name that the PDF's text uses for the subset."""
        place, own_subset = divmod(subset, _MOST_SUBSETS)
        name: str = self._font(place).getSubsetInternalName(own_subset, doc)
        return name

    def _font(self, place: int) -> Any:
        return super() if place == _OWN else _others()[place - 1]

    def _runs(self, text: str | bytes) -> Iterable[tuple[int, str]]:
        text = text.decode() if isinstance(text, bytes) else text
        if self.face.charToGlyph.keys() >= set(map(ord, text)):  # nearly always
            return [(_OWN, text)]
        return ((place, "".join(run)) for place, run in groupby(text, self._place))

    def _place(self, character: str) -> int:
        """Return which font draws the character: this one, or the place of another, from 1."""
        code = ord(character)
        if _has(self, code) or code > _LAST_OF_FIRST_PLANE:
            return _OWN
        return next((place for place, one in enumerate(_others(), 1) if _has(one, code)), _OWN)


def _has(font: TTFont, code: int) -> bool:
    return code in font.face.charToGlyph


@cache
def _others() -> tuple[TTFont, ...]:
    return tuple(TTFont(name, str(path)) for name, path in _OTHERS.items())
