"""Missed prompt caching.

Repeated prompt prefixes paid at full price, or cache writes nobody reads.

Costs you
---------
Up to ten times the price of a cache read for every repeated prompt; or, conversely, the surcharge
of cache writes that are never read, or that expire before they are read.

Fires on
--------
Four kinds, all for models with a cache-read rate. `uncached_prefix`: at least 2 uncached calls of a
route and model with one prefix hash and prompts long enough to be cached. Each is compared with the
last call of an earlier second, at most 300 seconds back, that began with the same text, by the
longest hash that both have. It would have read what that hash covers (4 characters per token, or
what the prompt's own length allows); where conversations grow from call to call, all of the earlier
prompt. Flagged if reads save more than writes cost. The low end takes the least that the hashes
allow and assumes that every call writes what it doesn't read; the high end takes the most, up to
where both prompts are known to differ. `short_lifetime`: calls that, 5 minutes to an hour after the
previous call, rewrite what it had stored, if the one-hour cache costs less; the low end is half.
`unread_writes`: other cache writes whose surcharge exceeds what the reads of the same prompt have
saved. `unhashed_prefix`: at least 20 long uncached calls without a hash, where the provider
requires opting in to caching; no savings are claimed.

Stays quiet on
--------------
Prompts below the provider's minimum, models without a cache-read rate, prompts that repeat too
rarely to pay for the write, and calls within the same second (they can't read each other's writes).

Do instead
----------
Put the fixed part of the prompt first, and opt in to caching where the provider requires it. For
expired writes, use the one-hour cache. For unread writes, cache less, or send calls that share a
prompt closer together.

Sources
-------
The model providers' caching pages, as cited in `detectors/prices/data/cache_minimums.toml`.
"""

import polars as pl

from detectors.contract import LEVELS
from detectors.engine import Calls
from detectors.rules.caching.runs import find_expired, find_unread, split_runs
from detectors.rules.caching.savings import filter_cacheable, find_uncached, find_unhashed
from detectors.rules.caching.wording import advise, write_formula
from detectors.rules.detector import ESTIMATED, INFORMATIONAL, VERIFIED, Detector, Facts, Kind, flag
from detectors.wording.caching_code import write_code
from detectors.wording.evidence import BILLED, CACHEABLE, COST, PAUSE, SAVINGS, TIME

THRESHOLDS: dict[str, int | float | tuple[int, ...]] = {
    "d2_min_hash_calls": 2,
    "d2_cache_seconds": 300,
    "d2_level_characters": LEVELS,
    "d2_conversation_share": 0.5,
    "d2_conversation_min_calls": 5,
    "d2_unhashed_min_calls": 20,
    "d2_unhashed_quantile": 0.10,
    "d2_unhashed_minimum_multiple": 2.0,
    "d2_hour_cache_seconds": 3_600,
    "d2_grown_tokens": 2_048,
    "d2_short_lifetime_low_share": 0.5,
    "d2_whole_write_share": 0.9,
    "d2_whole_write_calls_share": 0.5,
}
_UNCACHED, _UNHASHED, _EXPIRED, _UNREAD = range(4)
_SECOND_US = 1_000_000


def find(calls: Calls, facts: Facts) -> Calls:
    thresholds = facts.thresholds
    cacheable = filter_cacheable(calls)
    runs = split_runs(calls, thresholds)
    saving, pause = pl.col("saving_usd"), (pl.col("pause_us") / _SECOND_US).fill_null(0.0)
    since_pair = (pl.col("at_us") - pl.col("pair_us")) / _SECOND_US
    lifetime = pl.col("lifetime_usd")
    kinds = [
        flag(
            find_uncached(cacheable, thresholds),
            _UNCACHED,
            saving,
            low_usd=pl.col("low_usd"),
            high_usd=pl.col("high_usd"),
            prefix_tokens=pl.col("prefix_tokens"),
            pause_seconds=pl.when(pl.col("level") > 0).then(since_pair).otherwise(pl.lit(0.0)),
            basis=pl.col("written_tokens"),
        ),
        flag(find_unhashed(cacheable, thresholds), _UNHASHED, pl.lit(0.0)),
        flag(
            find_expired(runs),
            _EXPIRED,
            lifetime,
            low_usd=lifetime * thresholds.d2_short_lifetime_low_share,
            prefix_tokens=pl.col("rewritten_tokens"),
            pause_seconds=pause,
            basis=pl.col("expiring_tokens"),
        ),
        flag(
            find_unread(runs, thresholds),
            _UNREAD,
            saving,
            pause_seconds=pause,
            basis=pl.col("writes_whole"),
        ),
    ]
    return pl.concat(kinds, how="vertical")


DETECTOR = Detector(
    id="d2_missed_caching",
    kinds=(
        Kind("uncached_prefix", ESTIMATED),
        Kind("unhashed_prefix", INFORMATIONAL),
        Kind("short_lifetime", ESTIMATED),
        Kind("unread_writes", VERIFIED),
    ),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    code=write_code,
    evidence=(TIME, *BILLED, CACHEABLE, PAUSE, COST, SAVINGS),
)
