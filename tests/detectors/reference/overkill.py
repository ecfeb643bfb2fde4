"""d1: what calls would cost at the next cheaper model, or at their model's successor."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Self

from tests.detectors.reference.calls import Call, groups
from tests.detectors.reference.catalog import cheaper_model, successor
from tests.detectors.reference.hosts import target_name, target_price
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    CONDITIONAL,
    POSITIVE,
    Waste,
    at_most,
    is_positive,
    median,
    quantile,
)

DETECTOR = "d1_model_overkill"


def model_overkill(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    """Return the findings, and with empty savings the groups that only the high limits reach."""
    found = [_of_group(members, limits) for _, members in groups(calls)]
    return [waste for waste in found if waste is not None]


def _of_group(calls: list[Call], limits: Limits) -> Waste | None:
    if len(calls) < limits.d1_min_calls:
        return None
    vendor, model = calls[0].price.vendor, calls[0].price.model
    newer, cheaper = successor(vendor, model), cheaper_model(vendor, model)
    if newer is not None:
        savings = _savings(calls, newer)
        return _waste("legacy_model", calls, newer, savings, savings)
    if cheaper is None:
        return None
    stated = _short(calls, cheaper, _Short.stated(limits))
    high = _short(calls, cheaper, _Short.high(limits))
    return _waste("short_answers", calls, cheaper, stated, high)


def _waste(
    kind: str, calls: list[Call], target: str, savings: dict[Call, float], highs: dict[Call, float]
) -> Waste | None:
    if fsum(highs.values()) <= POSITIVE:
        return None
    savings = savings if is_positive(savings) else {}
    lows = dict.fromkeys(savings, 0.0)
    name = target_name(calls[0], target) or target
    return Waste(DETECTOR, kind, calls[0].group, CONDITIONAL, savings, lows, highs, name)


@dataclass(frozen=True, slots=True)
class _Short:
    """What answers are short: the most tokens of the median, the 90th percentile and any call."""

    median: float
    p90: float
    longest: float

    @classmethod
    def stated(cls, limits: Limits) -> Self:
        return cls(
            limits.d1_median_completion_tokens,
            limits.d1_p90_completion_tokens,
            limits.d1_max_completion_tokens,
        )

    @classmethod
    def high(cls, limits: Limits) -> Self:
        return cls(
            limits.d1_high_median_completion_tokens,
            limits.d1_high_p90_completion_tokens,
            limits.d1_high_max_completion_tokens,
        )


def _short(calls: list[Call], target: str, most: _Short) -> dict[Call, float]:
    answers = [call.visible for call in calls]
    if not (at_most(median(answers), most.median) and at_most(quantile(answers, 0.9), most.p90)):
        return {}
    return _savings([call for call in calls if call.visible <= most.longest], target)


def _savings(calls: Sequence[Call], target: str) -> dict[Call, float]:
    """Return what each call saves that fits the target's window and costs less there."""
    savings = {}
    for call in calls:
        there = target_price(call, target)
        if there is None:
            continue
        window = there.window or call.price.window
        fits = window is not None and call.prompt + call.completion <= window
        if fits and there.cost < call.cost:
            savings[call] = call.cost - there.cost
    return savings
