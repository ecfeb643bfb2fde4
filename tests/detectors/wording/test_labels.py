"""Labels are shown as they are where they are words, and escaped where they move or hide others."""

from detectors.wording.labels import inert
from tests.cases import data_of, each_case

TABLES = data_of(__file__)


@each_case("label", TABLES["words"])
def test_words_and_emoji_are_shown_as_they_are(label: str) -> None:
    assert inert(label) == label


@each_case(("label", "shown"), TABLES["escaped"])
def test_what_moves_hides_or_looks_the_same_is_escaped(label: str, shown: str) -> None:
    assert inert(label) == shown
