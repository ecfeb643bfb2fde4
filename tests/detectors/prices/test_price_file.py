"""Terms as a TOML file: what is written is read as the same terms."""

from pathlib import Path

import pytest

from detectors import PriceBook
from detectors.errors import PriceTermsError
from detectors.prices.agreed.price_file import PriceTerms, read_toml, write_toml
from tests.cases import each_case

TEXT = Path(__file__).with_name("terms.toml").read_text()


def test_a_file_has_terms_and_what_is_written_is_read_as_the_same() -> None:
    book = PriceBook.from_toml(TEXT)
    assert len(book.negotiated) == 5
    assert "openai gpt-5.5: input_mtok $4.00" in book.negotiated[2]
    assert book.aliases == (
        "azure legacy priced as openai gpt-4o",
        "azure prod-chat-* priced as azure gpt-5.4",
    )
    # What is written is read as the same terms.
    written = PriceBook.from_toml(TEXT).to_toml()
    again = PriceBook.from_toml(written)
    assert again.to_toml() == written
    assert set(again.negotiated) == set(PriceBook.from_toml(TEXT).negotiated)
    assert again.aliases == PriceBook.from_toml(TEXT).aliases


@each_case(
    "name", ['quo"te', "back\\slash", "new\nline", "dotted.name", "\x7f", "ünï", "a b", "[x]"]
)
def test_any_name_survives(name: str) -> None:
    rates = {"input_mtok": "0.1", "output_mtok": "0.000000001"}
    terms = PriceTerms.read(
        {name: 0.25}, {(name, name): rates}, {(name, name): ("openai", "gpt-5.4")}
    )
    assert read_toml(write_toml(terms)) == terms


def test_without_terms_the_file_is_empty() -> None:
    assert PriceBook().to_toml() == ""
    assert not read_toml("")


@each_case(
    ("text", "message"),
    [
        ("nonsense", "not TOML"),
        ("[discount]\n", "unknown 'discount'"),
        ("aliases = 1", "line 1: aliases: must be a table"),
        ("[aliases]\nazure = 1", "line 2: aliases.azure: must be a table"),
        ("[aliases.azure]\nprod = 1", "provider and model"),
        ('[aliases.azure]\nprod = ["azure", "none"]', "not in the price book"),
    ],
)
def test_another_form_is_an_error(text: str, message: str) -> None:
    with pytest.raises(PriceTermsError, match=message):
        PriceBook.from_toml(text)
