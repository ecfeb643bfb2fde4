"""Every number in the definitions of the detectors, with its default."""

from dataclasses import dataclass, fields
from random import Random
from typing import Any, Self

from msgspec.structs import replace

from detectors import Thresholds


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, tokens, calls, shares and US dollars, each named after what it limits."""

    days_per_month: float = 30
    outlier_gap_days: float = 30
    outlier_share: float = 0.01
    good_span_days: float = 7
    rough_span_days: float = 1
    very_rough_span_hours: float = 1
    projection_min_calls: int = 30
    high_severity_usd: float = 500
    medium_severity_usd: float = 50
    floor_usd: float = 0.01
    max_findings: int = 400
    max_informational_findings: int = 50

    d1_min_calls: int = 5
    d1_median_completion_tokens: float = 150
    d1_p90_completion_tokens: float = 400
    d1_max_completion_tokens: int = 400
    d1_high_median_completion_tokens: float = 225
    d1_high_p90_completion_tokens: float = 600
    d1_high_max_completion_tokens: int = 600

    d2_min_hash_calls: int = 2
    d2_cache_seconds: int = 300
    d2_hour_cache_seconds: int = 3_600
    d2_conversation_share: float = 0.5
    d2_conversation_min_calls: int = 5
    d2_level_characters: tuple[int, ...] = (
        *(4_096, 5_793, 8_192, 11_585, 16_384, 23_170, 32_768, 46_341, 65_536),
        *(92_682, 131_072, 185_364, 262_144),
    )
    d2_unhashed_min_calls: int = 20
    d2_unhashed_quantile: float = 0.1
    d2_unhashed_minimum_multiple: float = 2
    d2_grown_tokens: int = 2_048
    d2_short_lifetime_low_share: float = 0.5

    d3_min_calls: int = 10
    d3_p90_multiple: float = 3
    d3_bin_min_calls: int = 30
    d3_bin_min_routes: int = 2
    d3_max_bin_share: float = 0.5
    d3_saving_share: float = 0.5
    d3_low_share: float = 0
    d3_high_multiple: float = 8

    d4_whole_prompt_tokens: int = 800
    d4_same_prompt_share: float = 0.95
    d4_same_shape_min_completion_tokens: int = 20
    d4_same_shape_min_share: float = 0.5
    d4_gap_seconds: float = 30
    d4_min_burst_calls: int = 3
    d4_equal_answers_share: float = 0.5
    d4_sampling_min_bursts: int = 3
    d4_sampling_share: float = 0.9

    d5_truncated_above_tokens: int = 16
    d5_truncated_min_calls: int = 5
    d5_truncated_min_share: float = 0.02
    d5_again_seconds: float = 120
    d5_again_tokens: int = 512
    d5_again_min_excess_share: float = 0.2
    d5_truncated_low_share: float = 0.5
    d5_truncated_high_multiple: float = 3.5
    d5_thrown_away_share: float = 0.5
    d5_oversized_min_calls: int = 20
    d5_oversized_multiple: float = 10
    d5_oversized_quantile: float = 0.95

    d6_session_gap_seconds: float = 900
    d6_min_calls: int = 10
    d6_max_session_seconds: float = 7_200
    d6_min_short_share: float = 0.8
    d6_short_completion_tokens: int = 100
    d6_max_median_gap_seconds: float = 60
    d6_overlap_gap_seconds: float = 0.25
    d6_max_overlap_share: float = 0.05
    d6_max_zero_gap_share: float = 0.3
    d6_min_latency_share: float = 0.9
    d6_calls_per_request: int = 5
    d6_saving_share: float = 0.5
    d6_min_hash_share: float = 0.5
    d6_low_share: float = 0.5
    d6_high_saving_share: float = 0.8

    @classmethod
    def of(cls, thresholds: Thresholds) -> Self:
        """Return the numbers of the library's thresholds, which have the same names."""
        return cls(**{field.name: getattr(thresholds, field.name) for field in fields(cls)})


_OF_THE_FILE = {"min_valid_pct", "warn_valid_pct", "max_findings", "max_informational_findings"}
_MOVED = 0.35  # of all thresholds


def draw_thresholds(rng: Random) -> Thresholds:
    """Return thresholds of which some lie around their defaults."""
    defaults = Thresholds()
    names = [name for name in Thresholds.__struct_fields__ if name not in _OF_THE_FILE]
    moved = [name for name in names if rng.random() < _MOVED]
    drawn = {name: _near(rng, name, getattr(defaults, name)) for name in moved}
    return _with_ordered_limits(replace(defaults, **drawn))


def _with_ordered_limits(thresholds: Thresholds) -> Thresholds:
    """Raise d1's limits of the upper end to the stated ones: below them, an end is undefined."""
    ordered = {}
    for name in ("median", "p90", "max"):
        stated = getattr(thresholds, f"d1_{name}_completion_tokens")
        high = getattr(thresholds, f"d1_high_{name}_completion_tokens")
        ordered[f"d1_high_{name}_completion_tokens"] = max(stated, high)
    return replace(thresholds, **ordered)


def _near(rng: Random, name: str, default: Any) -> Any:
    if isinstance(default, tuple):
        factor = rng.choice([0.5, 0.9, 1.5])
        return tuple(int(each * factor) for each in default)
    if isinstance(default, int) and default > 10:
        return int(default * rng.choice([0.5, 0.8, 1.2, 2]))
    if isinstance(default, int):
        return max(1, default + rng.choice([-2, -1, 1, 2]))
    moved = default * rng.choice([0.25, 0.5, 0.9, 1.1, 1.5, 2])
    return min(moved, 1.0) if name.endswith(("share", "quantile")) else moved
