"""Valid and invalid email addresses."""

from service.mail.addresses import find_address
from tests.cases import data_of, each_case

GOOD = [
    "ada@example.org",
    "a@b.c",
    "first.last+tag@sub.example.co.uk",
    "o'brien@example.org",
    "x_-!#$%&*/?=^`{|}~@example.org",
    "root@localhost",
    f"{'a' * 64}@example.org",
]
BAD = [
    *data_of(__file__)["bad"],
    "ada\udce9@example.org",
    "\xe4" * 33 + "@example.org",
    f"{'a' * 65}@example.org",
    f"ada@{'a.' * 130}org",
]


@each_case("text", GOOD)
def test_an_address_passes(text: str) -> None:
    assert find_address(text) == text


@each_case("text", BAD)
def test_anything_else_does_not(text: str) -> None:
    assert find_address(text) is None


@each_case(
    ("text", "stored"),
    [
        ("ada@b\xfccher.example", "ada@xn--bcher-kva.example"),
        ("ADA@B\xdcCHER.example", "ada@xn--bcher-kva.example"),
        ("ada@xn--bcher-kva.example", "ada@xn--bcher-kva.example"),
        ("ada@\u4f8b\u3048.\u30c6\u30b9\u30c8", "ada@xn--r8jz45g.xn--zckzah"),
        ("J\xd6RG@example.org", "j\xf6rg@example.org"),
        ("jo\u0308rg@example.org", "j\xf6rg@example.org"),
        ("\u0e17\u0e35\u0e48@example.org", "\u0e17\u0e35\u0e48@example.org"),
        ("\u5f20.\u4e09@example.org", "\u5f20.\u4e09@example.org"),
    ],
)
def test_letters_of_any_language_may_be_in_an_address(text: str, stored: str) -> None:
    assert find_address(text) == find_address(stored) == stored


def test_case_and_spaces_around_do_not_matter() -> None:
    assert find_address(" ADA@Example.ORG\n") == "ada@example.org"
