"""The figures of money: the name of each, and whether its cents mean something.

Pages, reports, mails and the terminal write a figure by its name, so that it has the same digits
everywhere.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from detectors.wording.figures import usd, whole_usd


class Figure(NamedTuple):
    """What a figure is called, as in the glossary; one that is exact is written to the cent."""

    label: str
    is_exact: bool = False


FIGURES: Final[Mapping[str, Figure]] = {
    "spent": Figure("Spent", is_exact=True),
    "forecast": Figure("Forecast"),
    "budget": Figure("Budget", is_exact=True),
    "monthly_spend": Figure("Monthly spend"),
    "avoidable": Figure("Avoidable spend"),
    "verified": Figure("Verified"),
    "estimated": Figure("Estimated"),
    "conditional": Figure("Conditional"),
    "potential_savings": Figure("Potential savings"),
    "realized_savings": Figure("Realized savings", is_exact=True),
    "realized_monthly": Figure("Realized savings per month"),
    "plan_value": Figure("Plan value", is_exact=True),
}


def write_figure(name: str, amount: Decimal) -> str:
    """Write a figure as it is written everywhere: to the cent, or in whole dollars from $10 up."""
    return usd(amount) if FIGURES[name].is_exact else whole_usd(amount)
