"""Lines of a report as rows of our tables, with what our prices make of their counts."""

from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection

from detectors.contract.spend import name_prices
from service.connections.provider import CostLine, Line, UsageLine
from service.operations.connections.pricing import Price, price_with
from service.operations.price_book import find_version
from service.operations.price_terms import find_account_terms

Prices = tuple[Price, Price]  # the list's, and those of the account
# What the price of a line depends on.
COUNTED: Final = [each.name for each in fields(UsageLine) if each.name not in ("bucket", "usd")]


def load_prices(connection: Connection, account_id: str, provider: str) -> tuple[str, Prices]:
    """Return prices, and the name by which they differ from earlier and later ones."""
    version = find_version(connection)
    chosen, book = find_account_terms(connection, account_id)
    own = book.with_stored_toml(chosen.price_terms) if chosen.price_terms else book
    prices = price_with(book, provider), price_with(own, provider)
    return name_prices(version, chosen.price_terms), prices


def make_row(line: Line, prices: Prices, *, keeps_names: bool) -> dict[str, Any]:
    """Return the row of a line by day, without its owner."""
    row = dict(vars(line))
    row["bucket_at"] = row.pop("bucket")
    row["day"] = line.bucket.date()
    if isinstance(line, CostLine):
        return row if keeps_names else {**row, "line_item": ""}
    if not isinstance(line, UsageLine):
        return row
    if line.usd is None:
        listed, own = (price(line) for price in prices)
    else:
        listed = own = line.usd
    return {**row, "is_hourly": False, "list_usd": listed, "cost_usd": own}
