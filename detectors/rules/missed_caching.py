"""Prompts that begin alike and are paid in full each time, or cached without being read again.

Costs you
---------
Up to ten times the price of a cache read for every repeated beginning of a prompt; or, the other
way round, the surcharge of cache writes that nobody reads.

Fires on
--------
Three kinds. `uncached_prefix`: at least 3 uncached calls of a route and model with one prefix hash
and a prompt the vendor would cache; a call at most 300 seconds after an earlier one would have
read the cache, any other would have written it, and together that saves. `unhashed_prefix`: the
same for at least 20 calls without a hash, where caching has to be asked for; half of the shortest
usual prompt is taken to be the same each time. `unread_writes`: cache writes whose surcharge
exceeds what the reads of the route and model have saved.

Stays quiet on
--------------
Calls that use the cache already, prompts below the vendor's minimum, models without a cache-read
rate, prefixes that come back too seldom to pay for the write, calls of one second (they cannot
read what another of them writes), and unhashed calls of vendors that cache by themselves.

Do instead
----------
Put what never changes first in the prompt, and ask for caching where the vendor wants to be asked.
For unread writes: cache less, or send the calls that share a prompt closer together.

Sources
-------
The vendors' caching pages, as cited in `detectors/prices/cache_minimums.toml`.
"""

import narwhals.stable.v2 as nw

from detectors.contract import Thresholds
from detectors.engines import Calls
from detectors.rules.detector import (
    ESTIMATED,
    MARGIN,
    QUANTILE_MARGIN,
    VERIFIED,
    Detector,
    Facts,
    Kind,
    flag,
)

UNCACHED, UNHASHED, UNREAD = range(3)
_SECOND_US = 1_000_000


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    cacheable = calls.filter(
        nw.col("cached_tokens") == 0,
        nw.col("cache_write_tokens") == 0,
        nw.col("has_cache_read") == 1,
        nw.col("prompt_tokens") >= nw.col("cache_minimum"),
    ).with_columns((nw.col("at_us") // _SECOND_US).alias("second"))
    kinds = [
        _find_uncached(cacheable, thresholds),
        _find_unhashed(cacheable, thresholds),
        _find_unread(calls),
    ]
    return nw.concat(kinds, how="vertical")


def _find_uncached(cacheable: Calls, thresholds: Thresholds) -> Calls:
    keys = ["group", "prefix"]
    hashed = cacheable.filter(
        nw.col("prefix") > 0, nw.col("cache_minimum") <= thresholds.d2_prefix_tokens
    )
    prefix_tokens = nw.col("prompt_tokens").clip(upper_bound=thresholds.d2_prefix_tokens)
    saved = _with_saving(hashed, keys, prefix_tokens, thresholds)
    worthwhile = (
        saved.group_by(*keys)
        .agg(nw.len().alias("calls"), nw.col("saving_usd").sum().alias("total"))
        .filter(nw.col("calls") >= thresholds.d2_min_hash_calls, nw.col("total") > MARGIN)
    )
    return flag(saved.join(worthwhile, on=keys, how="semi"), UNCACHED, nw.col("saving_usd"))


def _find_unhashed(cacheable: Calls, thresholds: Thresholds) -> Calls:
    unhashed = cacheable.filter(
        nw.col("asks_for_caching") == 1,
        nw.col("has_route") == 1,
        (nw.col("prefix") == 0) | (nw.col("cache_minimum") > thresholds.d2_prefix_tokens),
    )
    groups = (
        unhashed.group_by("group")
        .agg(
            nw.len().alias("calls"),
            nw.col("cache_minimum").max().alias("minimum"),
            nw.col("prompt_tokens")
            .quantile(thresholds.d2_unhashed_quantile, "linear")
            .alias("short_prompt"),
        )
        .with_columns(
            (nw.col("short_prompt") * thresholds.d2_unhashed_prompt_share).alias("prefix_tokens")
        )
        .filter(
            nw.col("calls") >= thresholds.d2_unhashed_min_calls,
            nw.col("prefix_tokens") >= nw.col("minimum") - QUANTILE_MARGIN,
        )
        .select("group", "prefix_tokens")
    )
    alike = unhashed.join(groups, on="group", how="inner")
    prefix_tokens = nw.min_horizontal("prefix_tokens", nw.col("prompt_tokens").cast(nw.Float64))
    saved = _with_saving(alike, ["group"], prefix_tokens, thresholds)
    totals = saved.group_by("group").agg(nw.col("saving_usd").sum().alias("total"))
    worthwhile = totals.filter(nw.col("total") > MARGIN)
    return flag(saved.join(worthwhile, on="group", how="semi"), UNHASHED, nw.col("saving_usd"))


def _with_saving(
    calls: Calls, keys: list[str], prefix_tokens: nw.Expr, thresholds: Thresholds
) -> Calls:
    """What caching the prefix would have saved each call; less than nothing where it writes."""
    seconds = calls.select(*keys, "second").unique()
    before = nw.col("second").shift(1).over(*keys, order_by="second")
    seconds = seconds.with_columns((nw.col("second") - before).alias("pause"))
    reads = nw.col("pause") <= thresholds.d2_cache_seconds  # null for the first second: a write
    saving = (
        nw.when(reads)
        .then(prefix_tokens * nw.col("read_discount_usd"))
        .otherwise(prefix_tokens * nw.col("write_premium_usd") * -1.0)
    )
    joined = calls.join(seconds, on=[*keys, "second"], how="inner")
    return joined.with_columns(saving.alias("saving_usd"))


def _find_unread(calls: Calls) -> Calls:
    surcharge = nw.col("cache_write_tokens") * nw.col("write_premium_usd")
    discount = nw.col("cached_tokens") * nw.col("read_discount_usd")
    caching = calls.filter(
        (nw.col("cache_write_tokens") > 0) | (nw.col("cached_tokens") > 0)
    ).with_columns((surcharge - discount).alias("saving_usd"))
    losing = (
        caching.group_by("group")
        .agg(
            nw.col("cache_write_tokens").sum().alias("written"),
            nw.col("saving_usd").sum().alias("total"),
        )
        .filter(nw.col("written") > 0, nw.col("total") > MARGIN)
    )
    return flag(caching.join(losing, on="group", how="semi"), UNREAD, nw.col("saving_usd"))


def advise(facts: Facts) -> str:
    read = f"${facts.cache_read_usd_per_mtok:,.3f}"
    full = f"${facts.input_usd_per_mtok:,.2f}"
    if facts.kind == "unread_writes":
        return (
            f"Cache less on {facts.route}: {facts.cache_write_tokens:,} tokens were written to the "
            f"cache of {facts.model} at ${facts.cache_write_usd_per_mtok:,.3f} a million instead "
            f"of {full}, and only {facts.cached_tokens:,} were read back at {read}. Drop the cache "
            "marker where a prompt does not come back within minutes, or send such calls together."
        )
    if facts.kind == "unhashed_prefix":
        return (
            f"Ask for prompt caching on {facts.route} (mark the end of the fixed instructions with "
            f"cache_control): {facts.calls:,} calls to {facts.model} sent prompts of "
            f"{facts.median_prompt_tokens:,.0f} tokens (median) and cached none. A cached token "
            f"costs {read} a million instead of {full}. Half of a usual short prompt is taken to "
            "be the same each time; check that it is."
        )
    return (
        f"Let the beginning of the prompts on {facts.route} be cached: {facts.calls:,} calls to "
        f"{facts.model} began with the same 4,096 characters and paid {full} a million tokens for "
        f"them each time, where a cache read costs {read}. Keep the fixed part first and unchanged"
        ", and ask for caching where the vendor wants to be asked."
    )


DETECTOR = Detector(
    id="d2_missed_caching",
    kinds=(
        Kind("uncached_prefix", ESTIMATED),
        Kind("unhashed_prefix", ESTIMATED),
        Kind("unread_writes", VERIFIED),
    ),
    find=find,
    advise=advise,
)
