"""The figures of money: the name and definition of each, and whether its cents mean something.

Pages, reports, mails and the terminal write a figure by its name, so that it has the same digits
everywhere.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from detectors.wording.figures import usd, whole_usd
from detectors.wording.names import CONFIDENCE_WORDS


class Figure(NamedTuple):
    """What a figure is called and what it is; one that is exact is written to the cent."""

    label: str
    definition: str
    is_exact: bool = False


FIGURES: Final[Mapping[str, Figure]] = {
    "spent": Figure(
        "Spent",
        "The cost of the calls in the named dates (UTC, or the time zone that a page names).",
        is_exact=True,
    ),
    "forecast": Figure(
        "Forecast",
        "What the named month will have cost at its end: what was spent, and a usual day for each "
        "day that is left.",
    ),
    "budget": Figure("Budget", "What you set as the limit of each month.", is_exact=True),
    "monthly_spend": Figure(
        "Monthly spend",
        "The cost of the last 30 days; of a shorter log, a projection that says from what.",
    ),
    "avoidable": Figure("Avoidable spend", "Verified and estimated savings of an audit together."),
    "verified": Figure("Verified", f"Avoidable spend {CONFIDENCE_WORDS['VERIFIED']}."),
    "estimated": Figure("Estimated", f"Avoidable spend {CONFIDENCE_WORDS['ESTIMATED']}."),
    "conditional": Figure(
        "Conditional",
        f"What would be saved beyond verified and estimated savings "
        f"{CONFIDENCE_WORDS['CONDITIONAL']}: an upper limit.",
    ),
    "potential_savings": Figure(
        "Potential savings",
        "What fixing one finding would save per month. Potential savings overlap and don't add up.",
    ),
    "realized_savings": Figure(
        "Realized savings", "Money proven saved by fixes in the named dates.", is_exact=True
    ),
    "realized_monthly": Figure(
        "Realized savings per month", "Realized savings since a fix, for 30 days."
    ),
    "plan_value": Figure(
        "Plan value",
        "What calls that a plan includes would have cost through the API. It isn't spend.",
        is_exact=True,
    ),
}


def write_figure(name: str, amount: Decimal) -> str:
    """Write a figure as it is written everywhere: to the cent, or in whole dollars from $10 up."""
    return usd(amount) if FIGURES[name].is_exact else whole_usd(amount)
