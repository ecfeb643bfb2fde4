"""What findings save together, no dollar counted twice: the three sums and their ranges."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, prod

from tests.detectors.reference.calls import Call
from tests.detectors.reference.wastes import CONDITIONAL, ESTIMATED, VERIFIED, Waste

Savings = dict[Call, float]
Share = tuple[str, Savings]  # of one detector


@dataclass(frozen=True, slots=True)
class Range:
    """Dollars of a month, between two others."""

    low: float
    stated: float
    high: float


@dataclass(frozen=True, slots=True)
class Sums:
    verified: Range
    estimated: Range
    conditional: Range


def compose(calls: Sequence[Call], wastes: Sequence[Waste], factor: float) -> Sums:
    """Compose the savings of the window's calls; `wastes` are what counts in it."""
    spend = fsum(call.cost for call in calls)
    verified = _of(wastes, VERIFIED)
    sure = verified + _of(wastes, ESTIMATED)
    stated = saved(calls, sure)

    def clipped(dollars: float) -> float:
        return min(max(dollars, 0.0), spend) * factor

    def beyond(more: list[Share], less: float) -> float:
        return clipped(saved(calls, more) - less)

    proven = saved(calls, verified)
    lows, highs = _lows(calls, wastes), _estimated_highs(calls, wastes)
    return Sums(
        Range(*[clipped(proven)] * 3),
        Range(
            beyond(verified + lows, proven), beyond(sure, proven), beyond(verified + highs, proven)
        ),
        Range(
            0.0,
            beyond(sure + _of(wastes, CONDITIONAL), stated),
            beyond(sure + _highs(wastes, CONDITIONAL), stated),
        ),
    )


def saved(calls: Sequence[Call], shares: Iterable[Share]) -> float:
    """Return the sum of the calls' combined savings."""
    by_call: dict[Call, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for detector, savings in shares:
        for call, saving in savings.items():
            by_call[call][detector] += saving
    return fsum(_combined(call.cost, by_call[call].values()) for call in calls if call in by_call)


def _combined(cost: float, savings: Iterable[float]) -> float:
    if cost <= 0:
        return 0.0
    return cost * (1 - prod(1 - min(saving, cost) / cost for saving in savings))


def _of(wastes: Sequence[Waste], confidence: str) -> list[Share]:
    return [(waste.detector, waste.savings) for waste in wastes if waste.confidence == confidence]


def _highs(wastes: Sequence[Waste], confidence: str) -> list[Share]:
    return [(waste.detector, waste.highs) for waste in wastes if waste.confidence == confidence]


def _lows(calls: Sequence[Call], wastes: Sequence[Waste]) -> list[Share]:
    """Return the estimated findings' lows; those clipped as a whole are clipped per call too."""
    in_window = set(calls)
    lows = []
    for waste in wastes:
        if waste.confidence != ESTIMATED:
            continue
        low = fsum(saving for call, saving in waste.lows.items() if call in in_window)
        stated = fsum(saving for call, saving in waste.savings.items() if call in in_window)
        if low > 0:
            lows.append((waste.detector, waste.savings if low > stated else waste.lows))
    return lows


def _estimated_highs(calls: Sequence[Call], wastes: Sequence[Waste]) -> list[Share]:
    """Return the estimated findings' highs; none is under what the finding states."""
    in_window = set(calls)
    highs = []
    for waste in wastes:
        if waste.confidence == ESTIMATED:
            high = fsum(saving for call, saving in waste.highs.items() if call in in_window)
            stated = fsum(saving for call, saving in waste.savings.items() if call in in_window)
            highs.append((waste.detector, waste.savings if high < stated else waste.highs))
    return highs
