"""d3: prompts far longer than those of comparable answers."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.detectors.reference.calls import Call, groups
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    ESTIMATED,
    Details,
    Waste,
    at_most,
    informational,
    is_positive,
    median,
    over,
    quantile,
)

DETECTOR = "d3_context_bloat"


@dataclass(slots=True)
class Bin:
    """All calls whose visible answers have about the same length."""

    calls: list[Call] = field(default_factory=list)

    @property
    def norm(self) -> float:
        return median([call.prompt for call in self.calls])

    @property
    def routes(self) -> int:
        return len({call.group[0] for call in self.calls})


def context_bloat(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    bins = _bins(calls)
    found = []
    for group, members in groups(calls):
        savings: dict[Call, float] = {}
        details: dict[Call, Details] = {}
        unclear: list[Call] = []
        for number, part in _bins(members).items():
            norm = bins[number].norm
            if not _is_large(part.calls, bins[number], limits):
                continue
            longer = [call for call in part.calls if call.prompt > norm]
            if not at_most(median([call.prompt for call in part.calls]), norm):
                unclear += longer
                continue
            rate = limits.d3_saving_share
            savings |= {call: rate * (call.prompt - norm) * call.input_rate for call in longer}
            details |= {call: {"norm": norm, "excess": call.prompt - norm} for call in longer}
        if is_positive(savings):
            low = {call: limits.d3_low_share * saving for call, saving in savings.items()}
            high = {call: limits.d3_high_multiple * saving for call, saving in savings.items()}
            kind = (DETECTOR, "outgrown")
            found.append(Waste(*kind, group, ESTIMATED, savings, low, high, details=details))
        if unclear:
            found.append(informational((DETECTOR, "large_prompts"), group, unclear))
    return found


def _bins(calls: Sequence[Call]) -> dict[int, Bin]:
    bins: dict[int, Bin] = defaultdict(Bin)
    for call in calls:
        bins[max(call.visible, 1).bit_length() - 1].calls.append(call)
    return bins


def _is_large(calls: list[Call], whole: Bin, limits: Limits) -> bool:
    return (
        len(calls) >= limits.d3_min_calls
        and over(
            quantile([call.prompt for call in calls], 0.9), limits.d3_p90_multiple * whole.norm
        )
        and len(whole.calls) >= limits.d3_bin_min_calls
        and whole.routes >= limits.d3_bin_min_routes
        and at_most(len(calls) / len(whole.calls), limits.d3_max_bin_share)
    )
