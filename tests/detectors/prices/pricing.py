"""Calls with every column of their prices, for tests that look at one call or a few."""

from detectors.engine import Calls
from detectors.prices.book import PriceBook
from detectors.prices.table import CELL, Cells


def price_calls(calls: Calls, book: PriceBook) -> Calls:
    """Add the costs and the rates. Calls with unknown rates are removed."""
    cells = Cells.of(calls, book)
    return cells.show(cells.add_cost(cells.number(calls))).drop(CELL)
