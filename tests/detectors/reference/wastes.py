"""What a rule of the reference finds, and the arithmetic that the rules share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import floor, fsum

from tests.detectors.reference.calls import Call, Group

MARGIN = 1e-6  # for comparisons of quantiles and shares
POSITIVE = 1e-9  # US dollars; less is a break-even

VERIFIED, ESTIMATED = "VERIFIED", "ESTIMATED"
CONDITIONAL, INFORMATIONAL = "CONDITIONAL", "INFORMATIONAL"

Details = dict[str, float]


@dataclass(frozen=True, slots=True)
class Waste:
    """One finding before it is projected: every flagged call with its saving, low and high."""

    detector: str
    kind: str
    group: Group
    confidence: str
    savings: dict[Call, float]
    lows: dict[Call, float]
    highs: dict[Call, float]
    suggested_model: str = ""
    details: dict[Call, Details] = field(default_factory=dict)


def waste(
    name: tuple[str, str],
    group: Group,
    confidence: str,
    savings: dict[Call, float],
    factors: tuple[float, float] = (1.0, 1.0),
) -> Waste:
    """Return a finding whose low and high are these factors of the stated savings."""
    low, high = factors
    return Waste(
        *name,
        group,
        confidence,
        savings,
        {call: low * saving for call, saving in savings.items()},
        {call: high * saving for call, saving in savings.items()},
    )


def informational(name: tuple[str, str], group: Group, calls: Iterable[Call]) -> Waste:
    """Return a finding of these calls that claims no dollars."""
    return waste(name, group, INFORMATIONAL, dict.fromkeys(calls, 0.0))


def is_positive(savings: dict[Call, float]) -> bool:
    return fsum(savings.values()) > POSITIVE


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, linear-interpolated between the two nearest ranks."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def at_most(value: float, limit: float) -> bool:
    """Compare with the margin; on the limit is within it."""
    return value <= limit + MARGIN


def at_least(value: float, limit: float) -> bool:
    return value >= limit - MARGIN


def over(value: float, limit: float) -> bool:
    """Check that a value is over its limit by more than the margin."""
    return value > limit + MARGIN
