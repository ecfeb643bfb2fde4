"""Labels are shown as they are where they are words, and escaped where they move or hide others."""

from detectors.wording.labels import inert
from tests.cases import each_case


@each_case(
    "label",
    [
        "می\u200cخواهم",  # Persian: the joiner keeps two letters apart
        "ක\u0dca\u200dෂ",  # Sinhala: a virama joins two consonants
        "ര\u200d\u0d4d",  # before a virama
        "ന\u0d4d\u200d",  # Malayalam: a consonant at the end of a word
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",  # a family
        "\U0001f469\U0001f3fd\u200d\U0001f4bb",  # with a skin tone
        "\u2764\ufe0f\u200d\U0001f525",  # with a variation selector
        "\U0001f3f4\u200d\u2620\ufe0f",  # a pirate flag
        "مسار الدعم",
        "漢字",
    ],
)
def test_words_and_emoji_are_shown_as_they_are(label: str) -> None:
    assert inert(label) == label


@each_case(
    ("label", "shown"),
    [
        ("ad\u200cmin", "ad\\u200cmin"),
        ("ad\u200dmin", "ad\\u200dmin"),
        ("\u200dadmin", "\\u200dadmin"),
        ("admin\u200c", "admin\\u200c"),
        ("می\u200c\u200cخ", "می\\u200c\\u200cخ"),
        ("x\u200d\U0001f469", "x\\u200d\U0001f469"),
        ("1\u200c2", "1\\u200c2"),
        ("a\u202eb\u2066c\u200fd", "a\\u202eb\\u2066c\\u200fd"),
        ("a\u200bb\ufeffc\u00add", "a\\u200bb\\ufeffc\\xadd"),
        ("a\nb\x1b[0m", "a\\nb\\x1b[0m"),
    ],
)
def test_what_moves_hides_or_looks_the_same_is_escaped(label: str, shown: str) -> None:
    assert inert(label) == shown
