"""The thresholds of every audit, with their defaults, and the limits of all thresholds.

Those of a detector are in its file in `detectors/rules/`.
"""

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from detectors.contract.record import LEVELS

_MAX_THRESHOLD: Final = 1e12
_MAX_CHARACTERS: Final = 1e6


class Thresholds(Struct, frozen=True, kw_only=True):
    """Every number in the detectors' definitions, with its default.

    Units are in the names: `_tokens`, `_seconds`, `_hours`, `_days`, `_usd` (US dollars per month),
    `_pct` (0 to 100), `_share` and `_quantile` (0 to 1), `_multiple` (a factor), `_calls` and
    `_findings` (counts), and `_characters` (a list of integers). The numbers of a detector start
    with its short code; `detectors.rules` adds them.
    """

    days_per_month: int = 30
    good_span_days: float = 7.0
    rough_span_days: float = 1.0
    very_rough_span_hours: float = 1.0
    projection_min_calls: int = 30
    outlier_gap_days: float = 30.0
    outlier_share: float = 0.01
    max_findings: int = 400
    max_informational_findings: int = 50
    high_severity_usd: float = 500.0
    medium_severity_usd: float = 50.0
    floor_usd: float = 0.01
    evidence_calls: int = 20
    min_valid_pct: float = 50.0
    warn_valid_pct: float = 95.0

    if TYPE_CHECKING:  # the numbers of the detectors

        def __init__(self, **chosen: float) -> None: ...

        def __getattr__(self, name: str) -> float: ...

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            lowest, highest = limits_of(name)
            value = getattr(self, name)
            is_whole = name in _whole_numbers(type(self))
            kinds = int if is_whole else int | float
            if name.endswith("_characters"):
                if not (
                    isinstance(value, tuple)
                    and len(value) == len(LEVELS)
                    and all(type(each) is int and lowest <= each <= highest for each in value)
                    and all(low < high for low, high in pairwise(value))
                ):
                    raise ValueError(
                        f"{name} must be {len(LEVELS)} rising integers from {lowest} to"
                        f" {highest:,.0f}"
                    )
            elif isinstance(value, bool) or not (
                isinstance(value, kinds) and lowest <= value <= highest
            ):
                number = "an integer" if is_whole else "a number"
                raise ValueError(f"{name} must be {number} from {lowest} to {highest:,.0f}")


@cache
def _whole_numbers(thresholds: type[Thresholds]) -> frozenset[str]:
    return frozenset(f.name for f in msgspec.structs.fields(thresholds) if f.type is int)


def limits_of(threshold: str) -> tuple[int, float]:
    """Return the minimum and maximum of a threshold, by the unit in its name."""
    # A divisor, or the gap of outliers, which are found by day.
    if "_per_" in threshold or threshold == "outlier_gap_days":
        return 1, _MAX_THRESHOLD
    if threshold.endswith(("_share", "_quantile")):
        return 0, 1
    # Characters are divisors, and are multiplied by counts of tokens.
    if threshold.endswith("_characters"):
        return 1, _MAX_CHARACTERS
    return 0, 100 if threshold.endswith("_pct") else _MAX_THRESHOLD
