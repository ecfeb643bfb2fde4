"""The glossary has every figure of money, and how sure an amount is as its tooltip says it."""

from detectors.wording.glossary import MONEY, PRODUCT
from detectors.wording.money import FIGURES
from detectors.wording.names import CONFIDENCE_WORDS


def test_it_has_the_words_of_the_product_and_every_figure() -> None:
    assert PRODUCT["call"] == "One request to a language model, with its token counts."
    assert not PRODUCT.keys() & MONEY.keys()
    assert {each.label.lower() for each in FIGURES.values()} <= MONEY.keys()


def test_how_sure_an_amount_is_has_the_words_of_its_tooltip() -> None:
    for name in ("VERIFIED", "ESTIMATED", "CONDITIONAL"):
        assert CONFIDENCE_WORDS[name] in MONEY[name.lower()]
