"""Combines the savings of all findings, which may overlap on the same call.

Overlapping savings are composed, never added: a call that is no longer made cannot save more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Final

import narwhals.stable.v2 as nw

from detectors.engines import Calls
from detectors.rules import DETECTORS
from detectors.rules.detector import CONDITIONAL, ESTIMATED, VERIFIED, Detector

# What each sum composes: of each confidence the savings as stated, or one end of their range. The
# names must not end like those that `money.split` adds.
_STATED, _LOW, _HIGH = "saving_usd", "low_usd", "high_usd"
SUMS: Final[Mapping[str, Mapping[str, str]]] = {
    "verified": {VERIFIED: _STATED},
    "claimed": {VERIFIED: _STATED, ESTIMATED: _STATED},
    "least_claimed": {VERIFIED: _STATED, ESTIMATED: _LOW},
    "most_claimed": {VERIFIED: _STATED, ESTIMATED: _HIGH},
    "possible": {VERIFIED: _STATED, ESTIMATED: _STATED, CONDITIONAL: _STATED},
    "least_possible": {VERIFIED: _STATED, ESTIMATED: _STATED, CONDITIONAL: _LOW},
    "most_possible": {VERIFIED: _STATED, ESTIMATED: _STATED, CONDITIONAL: _HIGH},
}
_STEPS: Final = tuple(f"step_{index}" for index in range(len(DETECTORS)))
COMBINED: Final = (*SUMS, *_STEPS)


@dataclass(frozen=True, slots=True)
class _Part:
    """The savings of one confidence of one detector, as stated or at one end of their range."""

    detector: int
    confidence: str
    amount: str

    @property
    def name(self) -> str:
        return f"{self.amount}_{self.confidence.lower()}_{self.detector}"

    def of(self, index: int) -> nw.Expr:
        """Return the part among the calls that the detector of this index flags."""
        if index != self.detector:
            return nw.lit(0.0)
        kinds = [
            number
            for number, kind in enumerate(DETECTORS[index].kinds)
            if kind.confidence == self.confidence
        ]
        amount = nw.when(nw.col("kind").is_in(kinds)).then(nw.col(self.amount))
        return amount.otherwise(nw.lit(0.0))


def _parts(index: int, detector: Detector) -> list[_Part]:
    confidences = {kind.confidence for kind in detector.kinds}
    used = {each for composed in SUMS.values() for each in composed.items()}
    return [
        _Part(index, confidence, amount)
        for confidence, amount in sorted(used)
        if confidence in confidences
    ]


def compose_savings(flagged: Sequence[Calls]) -> Calls:
    """Return what each flagged call of the window saves, as the columns of `COMBINED`.

    With s a detector's saving on a call of cost c, a sum is c (1 - the product of all 1 - s/c). A
    saving is at most the cost, and negative if a fix makes this call more expensive. `step_0` and
    so on are what each detector saves of the cost that the detectors before it leave; they add up
    to `claimed`.
    """
    parts = [part for each in enumerate(DETECTORS) for part in _parts(*each)]
    # One column per part, so that the terms of a call are summed in a fixed order.
    wide = [
        calls.filter(nw.col("in_window"), nw.col("cost_usd") > 0).select(
            "number", "cost_usd", *[part.of(index).alias(part.name) for part in parts]
        )
        for index, calls in enumerate(flagged)
    ]
    savings = (
        nw.concat(wide, how="vertical")
        .group_by("number")
        .agg(nw.col("cost_usd").max(), *[nw.col(part.name).sum() for part in parts])
    )
    composed = [_compose(name, composed, parts) for name, composed in SUMS.items()]
    return savings.select("number", *composed, *_steps(parts))


def _compose(name: str, composed: Mapping[str, str], parts: Sequence[_Part]) -> nw.Expr:
    left = nw.lit(1.0)
    for index in range(len(DETECTORS)):
        saving = _saving(index, composed, parts)
        if saving is not None:
            left = left * (1.0 - saving / nw.col("cost_usd"))
    return (nw.col("cost_usd") * (1.0 - left)).alias(name)


def _steps(parts: Sequence[_Part]) -> list[nw.Expr]:
    left, steps = nw.lit(1.0), []
    for index, name in enumerate(_STEPS):
        saving = _saving(index, SUMS["claimed"], parts)
        if saving is None:
            steps.append(nw.lit(0.0).alias(name))
            continue
        steps.append((left * saving).alias(name))
        left = left * (1.0 - saving / nw.col("cost_usd"))
    return steps


def _saving(index: int, composed: Mapping[str, str], parts: Sequence[_Part]) -> nw.Expr | None:
    """Return what a detector saves on a call, at most its cost; None if it has no such kind."""
    own = [
        nw.col(part.name)
        for part in parts
        if part.detector == index and composed.get(part.confidence) == part.amount
    ]
    return nw.min_horizontal(reduce(add, own), "cost_usd") if own else None


@dataclass(frozen=True, slots=True)
class Savings:
    """The sums over the window's calls, in US dollars per month: how sure they are, with ranges.

    Each is within the window's spend. `steps` are the detectors' steps, before this limit.
    """

    verified: Decimal
    estimated: Decimal
    estimated_low: Decimal
    estimated_high: Decimal
    conditional: Decimal
    conditional_low: Decimal
    conditional_high: Decimal
    steps: tuple[Decimal, ...]


def headline_savings(summed: Mapping[str, Decimal], spent_usd: Decimal, factor: Decimal) -> Savings:
    """Turn the sums of `COMBINED` over a window into the sums of the headline."""

    def beyond(name: str, base: str = "") -> Decimal:
        saved = summed[name] - (summed[base] if base else Decimal(0))
        return min(max(saved, Decimal(0)), spent_usd) * factor

    return Savings(
        verified=beyond("verified"),
        estimated=beyond("claimed", "verified"),
        estimated_low=beyond("least_claimed", "verified"),
        estimated_high=beyond("most_claimed", "verified"),
        conditional=beyond("possible", "claimed"),
        conditional_low=beyond("least_possible", "claimed"),
        conditional_high=beyond("most_possible", "claimed"),
        steps=tuple(summed[name] * factor for name in _STEPS),
    )
