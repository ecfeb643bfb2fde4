"""The words of the product and of its money, from glossary.md, for the page `/glossary`.

What a tooltip says of an amount is in its definition: `names.CONFIDENCE_WORDS`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ROW: Final = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)


def _read(chapter: str) -> Mapping[str, str]:
    """Return the words of a chapter with their meanings; text between backticks is code."""
    text = Path(__file__).with_suffix(".md").read_text("utf-8")
    return dict(_ROW.findall(text.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0]))


PRODUCT: Final = _read("The product")
MONEY: Final = _read("Money")
