"""Combines the savings of all findings, which may overlap on the same call.

Overlapping savings are composed, never added: a call that is no longer made cannot save more.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Final

import msgspec
import polars as pl

from detectors.engine import Calls
from detectors.report.impacts import Impact
from detectors.rules import DETECTORS
from detectors.rules.detector import CONDITIONAL, ESTIMATED, VERIFIED

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
# A claim is a detector's index and a confidence; few of them save anything in one audit.
EVERY_CLAIM: Final = frozenset(
    (index, kind.confidence) for index, detector in enumerate(DETECTORS) for kind in detector.kinds
)


class _Part(msgspec.Struct, frozen=True):
    """The savings of one confidence of one detector, as stated or at one end of their range."""

    detector: int
    confidence: str
    amount: str

    @property
    def name(self) -> str:
        return f"{self.amount}_{self.confidence.lower()}_{self.detector}"

    @property
    def kinds(self) -> list[int]:
        kinds = enumerate(DETECTORS[self.detector].kinds)
        return [number for number, kind in kinds if kind.confidence == self.confidence]

    def of(self, index: int) -> pl.Expr:
        """Return the part among the calls that the detector of this index flags."""
        if index != self.detector:
            return pl.lit(0.0)
        amount = pl.when(pl.col("kind").is_in(self.kinds)).then(pl.col(self.amount))
        return amount.otherwise(pl.lit(0.0))


def _parts(claims: Set[tuple[int, str]]) -> list[_Part]:
    used = {each for composed in SUMS.values() for each in composed.items()}
    return [
        _Part(index, confidence, amount)
        for index in range(len(DETECTORS))
        for confidence, amount in sorted(used)
        if (index, confidence) in claims
    ]


def find_columns(claims: Set[tuple[int, str]] = EVERY_CLAIM) -> dict[str, str]:
    """Return the column of each sum in `COMBINED` that is not zero; equal sums have the same."""
    parts = _parts(claims)
    columns: dict[str, str] = {}
    first: dict[tuple[str, ...], str] = {}
    for name, composed in SUMS.items():
        if own := _select(parts, composed):
            columns[name] = first.setdefault(tuple(part.name for part in own), name)
    for index, name in enumerate(_STEPS):
        if any(part.detector == index for part in _select(parts, SUMS["claimed"])):
            columns[name] = name
    return columns


def _select(parts: Iterable[_Part], composed: Mapping[str, str]) -> list[_Part]:
    return [part for part in parts if composed.get(part.confidence) == part.amount]


def compose_savings(
    flagged: Sequence[Calls],
    claims: Set[tuple[int, str]],
    largest: int,
) -> Calls:
    """Return what each flagged call of the window saves, as the columns of `find_columns`.

    With s a detector's saving on a call of cost c, a sum is c (1 - the product of all 1 - s/c). A
    saving is at most the cost, and negative if a fix makes this call more expensive. `step_0` and
    so on are what each detector saves of the cost that the detectors before it leave; they add up
    to `claimed`. There must be a claim that saves something.
    """
    parts, columns = _parts(claims), find_columns(claims).values()
    # One column per part, so that the terms of a call are summed in a fixed order.
    wide = {}
    for index, calls in enumerate(flagged):
        kinds = {kind for part in parts if part.detector == index for kind in part.kinds}
        if kinds:
            counted = calls.filter(
                pl.col("in_window"), pl.col("cost_usd") > 0, pl.col("kind").is_in(sorted(kinds))
            )
            amounts = [part.of(index).alias(part.name) for part in parts]
            wide[index] = counted.select("number", "cost_usd", *amounts)
    several, alone = [*wide.values()], list[Calls]()
    if largest in wide and len(wide) > 1:
        # The calls that only the largest detector flags, which are most, need not be grouped.
        others = [calls for index, calls in wide.items() if index != largest]
        numbers = pl.concat([calls.select("number") for calls in others])
        alone = [wide[largest].join(numbers, on="number", how="anti")]
        several = [wide[largest].join(numbers.unique(), on="number", how="semi"), *others]
    savings = several[0]
    if len(wide) > 1:
        sums = [pl.col("cost_usd").max(), *[pl.col(part.name).sum() for part in parts]]
        alone.append(pl.concat(several).group_by("number").agg(sums))
        savings = pl.concat(alone)
    composed = list[pl.Expr]()
    for name in (each for each in SUMS if each in columns):
        left = pl.lit(1.0)
        for index in range(len(DETECTORS)):
            saving = _saving(index, SUMS[name], parts)
            if saving is not None:
                left = left * (1.0 - saving / pl.col("cost_usd"))
        composed.append((pl.col("cost_usd") * (1.0 - left)).alias(name))
    left, steps = pl.lit(1.0), list[pl.Expr]()
    for index, name in enumerate(_STEPS):
        saving = _saving(index, SUMS["claimed"], parts)
        if name in columns:
            steps.append((pl.lit(0.0) if saving is None else left * saving).alias(name))
        if saving is not None:
            left = left * (1.0 - saving / pl.col("cost_usd"))
    return savings.select("number", *composed, *steps)


def find_largest(impacts: Iterable[Impact]) -> int:
    """Return the index of the detector that flags most of the calls of these impacts."""
    calls = Counter[int]()
    for impact in impacts:
        calls[impact.detector_index] += impact.ever_calls
    return max(calls, key=calls.__getitem__)


def _saving(index: int, composed: Mapping[str, str], parts: Sequence[_Part]) -> pl.Expr | None:
    """Return what a detector saves on a call, at most its cost; None if it has no such kind."""
    own = [pl.col(part.name) for part in _select(parts, composed) if part.detector == index]
    return pl.min_horizontal(reduce(add, own), "cost_usd") if own else None


class Savings(msgspec.Struct, frozen=True):
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
