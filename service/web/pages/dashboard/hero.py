"""What an account could save per month, in the parts that differ in how sure they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy.orm import Session

from detectors.wording.names import CONFIDENCE_NAMES, CONFIDENCE_WORDS
from service.models.audits.audits import Audit
from service.models.calls.finding_list import sum_confidences

_NONE: Final = Decimal(0)


class HeroPart(NamedTuple):
    """Dollars of one certainty. `tone` is its color."""

    tone: str
    label: str
    dollars: Decimal
    explanation: str


@dataclass(frozen=True, kw_only=True)
class Hero:
    """From `low` to `high`, with cheaper models, of what was spent in the audited period."""

    low: Decimal
    high: Decimal
    parts: tuple[HeroPart, ...]
    spent: Decimal


def read_hero(session: Session, audit: Audit, only: Mapping[str, str]) -> Hero:
    """Return the savings of an audit, or those of the findings of a route or a model."""
    amounts = {
        "VERIFIED": audit.verified_savings_usd or _NONE,
        "ESTIMATED": audit.estimated_savings_usd or _NONE,
        "CONDITIONAL": audit.conditional_savings_high_usd or _NONE,
    }
    if only:
        sums = sum_confidences(session, audit.account_id, only)
        amounts = {name: sums.get(name, _NONE) for name in amounts}
    parts = tuple(
        HeroPart(name.lower(), CONFIDENCE_NAMES[name].lower(), dollars, CONFIDENCE_WORDS[name])
        for name, dollars in amounts.items()
        if dollars
    )
    sure = amounts["VERIFIED"] + amounts["ESTIMATED"]
    return Hero(
        low=sure,
        high=sure + amounts["CONDITIONAL"],
        parts=parts,
        spent=audit.total_spend_usd,
    )
