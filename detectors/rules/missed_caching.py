"""Missed prompt caching.

Repeated prompt prefixes paid at full price, or cache writes nobody reads.

Costs you
---------
Up to ten times the price of a cache read for every repeated prompt prefix; or, the other way
around, the surcharge of cache writes that are never read.

Fires on
--------
Three kinds. `uncached_prefix`: at least 3 uncached calls of a route and model with one prefix hash
and a prompt long enough to be cached. A call at most 300 seconds after an earlier one would have
read the cache, any other would have written it; flagged if that saves money in total.
`unhashed_prefix`: the same for at least 20 calls without a hash, where the provider requires opting
in; half of a short prompt (10th percentile) is assumed to be the shared prefix. `unread_writes`:
cache writes whose surcharge exceeds what the reads of the route and model have saved.

Stays quiet on
--------------
Calls that use the cache already, prompts below the provider's minimum, models without a cache-read
rate, prefixes that repeat too rarely to pay for the write, calls within the same second (they
cannot read each other's writes), and unhashed calls of providers that cache automatically.

Do instead
----------
Put the fixed part of the prompt first, and opt in to caching where the provider requires it.
For unread writes: cache less, or send calls that share a prompt closer together.

Sources
-------
The model providers' caching pages, as cited in `detectors/prices/cache_minimums.toml`.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.cache_savings import (
    filter_cacheable,
    find_uncached,
    find_unhashed,
    find_unread,
)
from detectors.rules.detector import (
    ESTIMATED,
    VERIFIED,
    Detector,
    FlaggedCalls,
    Kind,
    flag,
    per_mtok,
)
from detectors.wording.evidence import BILLED, COST, SAVINGS, TIME
from detectors.wording.figures import rate

THRESHOLDS = {
    "d2_prefix_tokens": 1_024,
    "d2_min_hash_calls": 3,
    "d2_cache_seconds": 300,
    "d2_unhashed_min_calls": 20,
    "d2_unhashed_quantile": 0.10,
    "d2_unhashed_prompt_share": 0.5,
}


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    cacheable = filter_cacheable(calls)
    kinds = (
        find_uncached(cacheable, thresholds),
        find_unhashed(cacheable, thresholds),
        find_unread(calls),
    )
    flagged = [flag(found, kind, nw.col("saving_usd")) for kind, found in enumerate(kinds)]
    return nw.concat(flagged, how="vertical")


def advise(flagged: FlaggedCalls) -> str:
    read = rate(flagged.cache_read_usd_per_mtok)
    full = rate(flagged.input_usd_per_mtok)
    if flagged.kind == "unread_writes":
        return (
            f"Cache less on {flagged.route}: {flagged.cache_write_tokens:,} tokens were written to "
            f"the cache of {flagged.model} at {rate(flagged.cache_write_usd_per_mtok)} per million "
            f"instead of {full}, and only {flagged.cached_tokens:,} were read back at {read}. "
            "Remove the cache marker from prompts that don't repeat within minutes, or send such "
            "calls closer together."
        )
    if flagged.kind == "unhashed_prefix":
        return (
            f"Turn on prompt caching for {flagged.route} (mark the end of the fixed instructions "
            f"with cache_control): {flagged.calls:,} calls to {flagged.model} sent prompts of "
            f"{flagged.median_prompt_tokens:,.0f} tokens (median) and cached none. Cached tokens "
            f"cost {read} per million instead of {full}. "
            f"{flagged.share('d2_unhashed_prompt_share')} of a short prompt is assumed to be the "
            "same each time; check that it is."
        )
    return (
        f"Cache the prompt prefix on {flagged.route}: {flagged.calls:,} calls to {flagged.model} "
        f"began with the same 4,096 characters and paid {full} per million tokens each time; a "
        f"cache read costs {read}. Keep the fixed part first and unchanged, and opt in to caching "
        "where the provider requires it."
    )


def write_formula(flagged: FlaggedCalls) -> str:
    full = flagged.input_usd_per_mtok
    discount = per_mtok(full - flagged.cache_read_usd_per_mtok)
    surcharge = per_mtok(flagged.cache_write_usd_per_mtok - full)
    if flagged.kind == "unread_writes":
        return (
            f"{flagged.cache_write_tokens:,} tokens written × surcharge ({surcharge}) − "
            f"{flagged.cached_tokens:,} tokens read × discount ({discount}) = {flagged.saving}"
        )
    prefix = f"Up to {flagged.thresholds.d2_prefix_tokens:,} tokens"
    if flagged.kind == "unhashed_prefix":
        prefix = f"{flagged.share('d2_unhashed_prompt_share')} of a short prompt"
    return (
        f"{prefix} × (input rate − cache-read rate: {discount}) for each cache read, minus the "
        f"surcharge of each cache write ({surcharge}), over {flagged.counted} that cost "
        f"{flagged.cost}: {flagged.saving}"
    )


DETECTOR = Detector(
    id="d2_missed_caching",
    kinds=(
        Kind("uncached_prefix", ESTIMATED),
        Kind("unhashed_prefix", ESTIMATED),
        Kind("unread_writes", VERIFIED),
    ),
    thresholds=THRESHOLDS,
    find=find,
    advise=advise,
    formula=write_formula,
    evidence=(TIME, *BILLED, COST, SAVINGS),
)
