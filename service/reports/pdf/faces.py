"""A font of the PDF, with other fonts for the characters that it lacks.

A PDF's font has at most 65,535 glyphs, and reading one with all of Chinese takes as long as
rendering a report. So those are other files, which a process reads once it meets a character that
only they have, and of which the PDF gets the characters that it shows.
"""

from collections.abc import Iterable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from reportlab.pdfbase.ttfonts import TTFont

FOLDER: Final = Path(__file__).parent / "fonts"
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
