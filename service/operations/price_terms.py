"""An account's aliases and negotiated rates: check them, add to them, and find outdated reports.

The modules of prices are imported where they are used, as in `price_book`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlalchemy import Connection

from detectors.contract import Report, changed_assumptions
from detectors.errors import PriceTermsError
from service.models.audits.audit_settings import Chosen, find_chosen, list_chosen
from service.operations.price_book import load_prices

if TYPE_CHECKING:
    from detectors.prices.book import PriceBook


@dataclass(frozen=True, kw_only=True)
class Named:
    """A model without a price, and what it is priced as: another model, or rates of its own."""

    provider: str
    model: str
    as_provider: str = ""
    as_model: str = ""
    input_mtok: str = ""
    output_mtok: str = ""


def add_terms(book: "PriceBook", toml: str) -> "PriceBook":
    """Return the prices with the terms of a TOML file.

    `PriceTermsError` says what was expected and where.
    """
    from detectors.prices.agreed.price_file import read_toml

    return book.with_terms(read_toml(toml)) if toml.strip() else book


def find_terms(
    connection: Connection, audit_ids: Sequence[str]
) -> "tuple[Mapping[str, Chosen], PriceBook]":
    """Return the settings of each audit's account, if it has any, and the prices in force."""
    return list_chosen(connection, audit_ids), load_prices(connection)


def find_account_terms(connection: Connection, account_id: str) -> "tuple[Chosen, PriceBook]":
    """Return the settings of an account and the prices in force."""
    return find_chosen(connection, account_id), load_prices(connection)


def find_own_prices(connection: Connection, toml: str) -> "PriceBook | None":
    """Return the prices in force with an account's terms; None if these no longer fit."""
    try:
        return add_terms(load_prices(connection), toml)
    except PriceTermsError:  # of a model that is no longer in the price book
        return None


def add_price(book: "PriceBook", toml: str, named: Named) -> str:
    """Return the terms with a price for one more model, which replaces an earlier one."""
    from detectors.prices.agreed.price_file import PriceTerms, read_toml, write_toml

    terms, key = read_toml(toml), (named.provider.lower(), named.model.lower())
    if named.as_model:
        new = PriceTerms.read(aliases={key: (named.as_provider, named.as_model)})
    else:
        rates = {"input_mtok": named.input_mtok, "output_mtok": named.output_mtok}
        new = PriceTerms.read(overrides={key: {k: _number(v) for k, v in rates.items() if v}})
    aliases = [each for each in terms.aliases if (each.provider, each.model) != key]
    overrides = [each for each in terms.overrides if each.concerns != key]
    added = replace(
        terms,
        aliases=(*aliases, *new.aliases),
        overrides=(*overrides, *new.overrides),
    )
    written = write_toml(added)
    add_terms(book, written)
    return written


def find_changes(
    report: Report, assumptions: Mapping[str, float], book: "PriceBook | None"
) -> Sequence[str]:
    """Return which of "prices" and "assumptions" would give the report other figures today.

    The book has the account's terms; without a book, prices are not compared.
    """
    from detectors.prices.updates import is_outdated

    used: Mapping[str, float] = {
        each.name: value for each, value in changed_assumptions(report.thresholds)
    }
    changes = ["assumptions"] if used != assumptions else []
    has_other_prices = book is not None and is_outdated(report, book)
    return ["prices", *changes] if has_other_prices else changes


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
