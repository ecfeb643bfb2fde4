"""docs/glossary.md and the page `/glossary` have the same words with the same meanings."""

import re

from detectors.wording.glossary import MONEY, PRODUCT
from detectors.wording.names import CONFIDENCE_WORDS
from tests.cases import each_case
from tests.detectors.docs import ROOT

_ROW = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)


@each_case(("chapter", "words"), [("The product", PRODUCT), ("Money", MONEY)])
def test_the_docs_define_each_word_as_the_page_does(chapter: str, words: dict[str, str]) -> None:
    text = (ROOT / "docs/glossary.md").read_text("utf-8")
    part = text.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0]
    assert _ROW.findall(part) == [*words.items()]


def test_how_sure_an_amount_is_has_the_words_of_its_tooltip() -> None:
    for name in ("VERIFIED", "ESTIMATED", "CONDITIONAL"):
        assert CONFIDENCE_WORDS[name] in MONEY[name.lower()]
