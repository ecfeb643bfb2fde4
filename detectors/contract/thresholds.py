"""The numbers of the six definitions, and within what they may be chosen."""

from typing import Final

import msgspec
from msgspec import Struct

_MAX_THRESHOLD: Final = 1e12


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every number of the six definitions, each with its default.

    Units stand in the names: `_tokens`, `_seconds`, `_usd` (US dollars a month), `_pct` (0 to 100),
    `_share` and `_quantile` (0 to 1), `_multiple` (a factor), `_calls` (a count).
    """

    # d1_model_overkill
    d1_min_calls: int = 5
    d1_median_completion_tokens: int = 150
    d1_p90_completion_tokens: int = 400
    d1_max_completion_tokens: int = 400
    # d2_missed_caching
    d2_prefix_tokens: int = 1_024
    d2_min_hash_calls: int = 3
    d2_cache_seconds: int = 300
    d2_unhashed_min_calls: int = 20
    d2_unhashed_quantile: float = 0.10
    d2_unhashed_prompt_share: float = 0.5
    # d3_context_bloat
    d3_min_calls: int = 10
    d3_p90_multiple: float = 3.0
    d3_bin_min_calls: int = 30
    d3_bin_min_routes: int = 2
    d3_max_bin_share: float = 0.5
    d3_saving_share: float = 0.5
    # d4_duplicate_calls
    d4_whole_prompt_tokens: int = 800
    d4_same_prompt_share: float = 0.95
    d4_same_shape_min_completion_tokens: int = 20
    d4_same_shape_min_share: float = 0.5
    d4_gap_seconds: float = 30.0
    d4_min_burst_calls: int = 3
    # d5_max_tokens_misfit
    d5_truncated_above_tokens: int = 16
    d5_truncated_min_calls: int = 5
    d5_truncated_min_share: float = 0.02
    d5_truncated_saving_share: float = 0.5
    d5_oversized_min_calls: int = 20
    d5_oversized_multiple: float = 10.0
    d5_oversized_quantile: float = 0.95
    # d6_chatty_loop
    d6_session_gap_seconds: float = 900.0
    d6_min_calls: int = 10
    d6_max_session_seconds: float = 7_200.0
    d6_short_completion_tokens: int = 100
    d6_min_short_share: float = 0.8
    d6_max_median_gap_seconds: float = 60.0
    d6_overlap_gap_seconds: float = 0.25
    d6_max_overlap_share: float = 0.05
    d6_max_zero_gap_share: float = 0.30
    d6_calls_per_request: int = 5
    d6_saving_share: float = 0.5
    d6_min_hash_share: float = 0.5
    # All detectors
    days_per_month: int = 30
    high_severity_usd: float = 500.0
    medium_severity_usd: float = 50.0
    floor_usd: float = 0.01
    evidence_calls: int = 20
    min_valid_pct: float = 50.0
    warn_valid_pct: float = 95.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            lowest, highest = _limits(name)
            value = getattr(self, name)
            kinds = int if name in _WHOLE else int | float
            if isinstance(value, bool) or not (
                isinstance(value, kinds) and lowest <= value <= highest
            ):
                number = "an integer" if name in _WHOLE else "a number"
                raise ValueError(f"{name} must be {number} from {lowest} to {highest:,.0f}")


_WHOLE: Final = frozenset(
    field.name for field in msgspec.structs.fields(Thresholds) if field.type is int
)


def _limits(threshold: str) -> tuple[int, float]:
    """The least and the most that a threshold may be, by the unit in its name."""
    if threshold in ("days_per_month", "d6_calls_per_request"):  # divided by
        return 1, _MAX_THRESHOLD
    if threshold.endswith(("_share", "_quantile")):
        return 0, 1
    return 0, 100 if threshold.endswith("_pct") else _MAX_THRESHOLD
