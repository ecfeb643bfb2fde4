"""The first sentence of a dashboard and a report: what could be saved, and of what it consists."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from detectors.wording.figures import whole_usd
from detectors.wording.names import CONFIDENCE_NAMES, CONFIDENCE_WORDS
from detectors.wording.projection import Projected, per_month

VERIFIED, ESTIMATED, CONDITIONAL = "VERIFIED", "ESTIMATED", "CONDITIONAL"
_TEN: Final = Decimal("9.995")
_NONE: Final = Decimal(0)


class Part(NamedTuple):
    """Savings of one certainty; parts without dollars don't exist."""

    tone: str  # verified, estimated, conditional
    label: str
    dollars: Decimal
    explanation: str


class Summary(Projected, Protocol):
    """The sums of an audit: a report's, or those that are stored beside it."""

    @property
    def projected_spend_usd(self) -> Decimal: ...
    @property
    def projected_savings_usd(self) -> Decimal: ...
    @property
    def verified_savings_usd(self) -> Decimal | None: ...
    @property
    def estimated_savings_usd(self) -> Decimal | None: ...
    @property
    def conditional_savings_usd(self) -> Decimal | None: ...
    @property
    def conditional_savings_high_usd(self) -> Decimal | None: ...


class Hero(NamedTuple):
    """What could be saved of what was spent.

    Verified and estimated savings are the low end, and conditional ones are added at the high end.
    Where `is_limit`, the parts may overlap, and the high end is an upper limit of all.
    """

    low: Decimal
    high: Decimal
    parts: Sequence[Part]
    spent: Decimal
    unit: str  # what follows an amount: "/month", " in this period"
    is_limit: bool = False

    @property
    def period(self) -> str:
        return " a month" if self.unit == "/month" else self.unit

    @property
    def sentence(self) -> str:
        """Return the headline: You could save $16–26 a month."""
        if not self.parts and self.is_limit:
            return "Nothing to save found"
        if not self.parts:
            return f"Nothing to save found in {whole_usd(self.spent)}{self.period}"
        return f"You could save {self.amount}{self.period}"

    @property
    def amount(self) -> str:
        low, high = whole_usd(self.low), whole_usd(self.high)
        if self.is_limit or not self.low:
            return f"up to {high}"
        if low == high:
            return low
        return f"{low}–{high.removeprefix('$') if self.low >= _TEN else high}"


def make_hero(audit: Summary) -> Hero:
    """Return the hero of an audit."""
    certain = audit.verified_savings_usd
    # Reports of the first releases have a single sum.
    estimated = audit.projected_savings_usd if certain is None else audit.estimated_savings_usd
    conditional = audit.conditional_savings_high_usd or audit.conditional_savings_usd
    sums = {VERIFIED: certain, ESTIMATED: estimated, CONDITIONAL: conditional}
    low = (certain or _NONE) + (estimated or _NONE)
    return Hero(
        low=low,
        high=low + (conditional or _NONE),
        parts=tuple(_parts({name: usd or _NONE for name, usd in sums.items()})),
        spent=audit.projected_spend_usd,
        unit=per_month(audit),
    )


def make_limit(sums: Mapping[str, Decimal], audit: Projected) -> Hero:
    """Return the hero of some findings, whose sums by confidence are upper limits."""
    parts = tuple(_parts(sums))
    total = sum((each.dollars for each in parts), _NONE)
    return Hero(total, total, parts, _NONE, per_month(audit), is_limit=True)


def _parts(sums: Mapping[str, Decimal]) -> Iterator[Part]:
    for name in (VERIFIED, ESTIMATED, CONDITIONAL):
        dollars = sums.get(name) or _NONE
        if dollars > 0:
            label = CONFIDENCE_NAMES[name]
            words = CONFIDENCE_WORDS[name]
            yield Part(name.lower(), label, dollars, f"{words[0].upper()}{words[1:]}.")
