"""An account's aliases and negotiated rates: check them, add to them, and find outdated reports.

The modules of prices are imported where they are used, as in `price_book`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace
from sqlalchemy import Connection

from detectors.contract import Report, changed_assumptions
from detectors.errors import PriceTermsError
from service.models.audits.audit_settings import (
    Chosen,
    find_chosen,
    list_chosen,
    list_typed_terms,
    rewrite_terms,
)
from service.operations.price_book import load_prices

if TYPE_CHECKING:
    from detectors.prices.book import PriceBook


MAX_CHARACTERS: Final = 40_000  # a form has 64 KiB
BATCH: Final = 10  # texts that are rewritten in one transaction


@dataclass(frozen=True, kw_only=True)
class Named:
    """A model without a price, and what it is priced as: another model, or rates of its own."""

    provider: str
    model: str
    as_provider: str = ""
    as_model: str = ""
    input_mtok: str = ""
    output_mtok: str = ""


def write_terms(book: "PriceBook", toml: str) -> str:
    """Return the terms of a TOML file as we store and export them, without what else it has.

    `PriceTermsError` says what was expected, and on which line.
    """
    most = f"{MAX_CHARACTERS:,} characters"
    if len(toml) > MAX_CHARACTERS:
        raise PriceTermsError(f"the file has over {most}")
    written = book.with_toml(toml).to_toml()
    if len(written) > MAX_CHARACTERS:
        raise PriceTermsError(f"as we store them, these prices have over {most}")
    return written


def rewrite_typed_terms(connection: Connection) -> int:
    """Write some of the terms that an earlier release has stored as they were typed.

    Those of which nothing can be read stay for their owner to correct. The page of prices says why.
    """
    rows = list_typed_terms(connection, BATCH)
    if rows:
        from detectors.prices.agreed.price_file import read_toml, write_toml
    for row in rows:
        account_id, typed = row[0], row[1]
        errors: list[PriceTermsError] = []
        terms = read_toml(typed, errors.append)
        if errors and not terms:
            rewrite_terms(connection, account_id, typed, typed, 0)
        else:
            rewrite_terms(connection, account_id, typed, write_toml(terms), len(errors))
    return len(rows)


def list_excluded(connection: Connection, toml: str) -> Sequence[str]:
    """Return which of an account's prices can't be applied today, and why."""
    return load_prices(connection).with_stored_toml(toml).excluded if toml else ()


def find_terms(
    connection: Connection, audit_ids: Sequence[str]
) -> "tuple[Mapping[str, Chosen], PriceBook]":
    """Return the settings of each audit's account, if it has any, and the prices in force."""
    return list_chosen(connection, audit_ids), load_prices(connection)


def find_account_terms(connection: Connection, account_id: str) -> "tuple[Chosen, PriceBook]":
    """Return the settings of an account and the prices in force."""
    return find_chosen(connection, account_id), load_prices(connection)


def find_own_prices(connection: Connection, toml: str) -> "PriceBook":
    """Return the prices in force with those of an account's terms that can be applied."""
    book = load_prices(connection)
    return book.with_stored_toml(toml) if toml else book


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
    return write_terms(book, write_toml(added))


def add_discount(book: "PriceBook", toml: str, provider: str, share: float, first: date) -> str:
    """Return the terms with a provider's discount from a day on, which replaces an earlier one."""
    from detectors.prices.agreed.price_file import PriceTerms, read_toml, write_toml

    terms = read_toml(toml)
    new = PriceTerms.read(discounts={provider: {"share": share, "from": first.isoformat()}})
    others = [each for each in terms.discounts if each.provider != provider]
    return write_terms(book, write_toml(replace(terms, discounts=(*others, *new.discounts))))


def has_discount(toml: str, provider: str) -> bool:
    """Check whether the terms have a discount of a provider."""
    from detectors.prices.agreed.price_file import read_toml

    errors: list[PriceTermsError] = []
    return any(each.provider == provider for each in read_toml(toml, errors.append).discounts)


def find_changes(
    report: Report, assumptions: Mapping[str, float], book: "PriceBook"
) -> Sequence[str]:
    """Return which of "prices" and "assumptions" would give the report other figures today.

    The book has the account's terms.
    """
    from detectors.prices.updates import is_outdated

    used: Mapping[str, float] = {
        each.name: value for each, value in changed_assumptions(report.thresholds)
    }
    changes = ["assumptions"] if used != assumptions else []
    return ["prices", *changes] if is_outdated(report, book) else changes


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
