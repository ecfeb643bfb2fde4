"""Every number in the definitions of the detectors, with its default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, tokens, calls, shares and US dollars, each named after what it limits."""

    days_per_month: float = 30
    stray_gap_days: float = 30
    stray_share: float = 0.01
    good_days: float = 7
    rough_days: float = 1
    very_rough_hours: float = 1
    projection_calls: int = 30
    high_usd: float = 500
    medium_usd: float = 50
    floor_usd: float = 0.01
    max_findings: int = 400
    max_informational: int = 50

    d1_calls: int = 5
    d1_median: float = 150
    d1_longest: float = 400
    d1_high_median: float = 225
    d1_high_longest: float = 600

    d2_calls: int = 2
    d2_cache_seconds: int = 300
    d2_hour_seconds: int = 3_600
    d2_conversational_share: float = 0.5
    d2_tokens_64k: int = 16_384
    d2_tokens_16k: int = 4_096
    d2_tokens: int = 1_024
    d2_unhashed_calls: int = 20
    d2_unhashed_multiple: float = 2
    d2_rewrite_slack: int = 2_048
    d2_lifetime_low: float = 0.5

    d3_calls: int = 10
    d3_multiple: float = 3
    d3_bin_calls: int = 30
    d3_bin_routes: int = 2
    d3_bin_share: float = 0.5
    d3_saving: float = 0.5
    d3_low: float = 0.5
    d3_high: float = 2

    d4_whole_prompt: int = 800
    d4_same_prompt_share: float = 0.95
    d4_min_completion: int = 20
    d4_burst_share: float = 0.5
    d4_gap_seconds: float = 30
    d4_burst_calls: int = 3
    d4_equal_answers: float = 0.5
    d4_sampling_bursts: int = 3
    d4_sampling_share: float = 0.9

    d5_above: int = 16
    d5_calls: int = 5
    d5_share: float = 0.02
    d5_again_seconds: float = 120
    d5_again_tokens: int = 512
    d5_again_excess: float = 0.2
    d5_low: float = 0.5
    d5_oversized_calls: int = 20
    d5_oversized_multiple: float = 10

    d6_gap_seconds: float = 900
    d6_calls: int = 10
    d6_session_seconds: float = 7_200
    d6_short_share: float = 0.8
    d6_short: int = 100
    d6_median_gap: float = 60
    d6_overlap_seconds: float = 0.25
    d6_overlap_share: float = 0.05
    d6_zero_share: float = 0.3
    d6_latency_share: float = 0.9
    d6_early_seconds: float = 0.25
    d6_batch: int = 5
    d6_saving: float = 0.5
    d6_hash_share: float = 0.5
    d6_low: float = 0.5
    d6_high_saving: float = 0.8
