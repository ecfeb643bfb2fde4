"""What a rule of the reference finds, and the arithmetic that the rules share."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, fsum

from tests.detectors.reference.calls import Call, Group

MARGIN = 1e-6  # for comparisons of quantiles
POSITIVE = 1e-9  # US dollars; less is a break-even

VERIFIED, ESTIMATED, INFORMATIONAL = "VERIFIED", "ESTIMATED", "INFORMATIONAL"


@dataclass(frozen=True, slots=True)
class Waste:
    """One finding before it is priced by the month: the flagged calls, each with its saving."""

    detector: str
    kind: str
    group: Group
    confidence: str
    savings: dict[Call, float]
    suggested_model: str | None = None

    @property
    def observed(self) -> float:
        return fsum(self.savings.values())


def quantile(values: Sequence[float], share: float) -> float:
    """Linear-interpolated between the two nearest ranks."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)
