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

from collections.abc import Sequence

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
from detectors.wording.figures import percent, rate

_UNCACHED, _UNHASHED, _UNREAD = range(3)
_HASH = ("group", "prefix")
_SECOND_US = 1_000_000


def find(calls: Calls, thresholds: Thresholds) -> Calls:
    kinds = [
        _find_uncached(_cacheable(calls), thresholds),
        _find_unhashed(_cacheable(calls), thresholds),
        _find_unread(calls),
    ]
    return nw.concat(kinds, how="vertical")


def _cacheable(calls: Calls) -> Calls:
    """Calls that could use the cache and do not."""
    return calls.filter(
        nw.col("cached_tokens") == 0,
        nw.col("cache_write_tokens") == 0,
        nw.col("has_cache_read") == 1,
        nw.col("prompt_tokens") >= nw.col("cache_minimum"),
    )


def _find_uncached(cacheable: Calls, thresholds: Thresholds) -> Calls:
    hashed = (
        cacheable.filter(
            nw.col("prefix") > 0, nw.col("cache_minimum") <= thresholds.d2_prefix_tokens
        )
        .with_columns(nw.len().over(*_HASH).cast(nw.Int64).alias("calls"))
        .filter(nw.col("calls") >= thresholds.d2_min_hash_calls)
    )
    prefix_tokens = nw.col("prompt_tokens").clip(upper_bound=thresholds.d2_prefix_tokens)
    saving = _filter_saving(hashed, _HASH, prefix_tokens, thresholds)
    return flag(saving, _UNCACHED, nw.col("saving_usd"))


def _find_unhashed(cacheable: Calls, thresholds: Thresholds) -> Calls:
    unhashed = cacheable.filter(
        nw.col("asks_for_caching") == 1,
        nw.col("has_route") == 1,
        (nw.col("prefix") == 0) | (nw.col("cache_minimum") > thresholds.d2_prefix_tokens),
    )
    short_prompt = nw.col("prompt_tokens").quantile(thresholds.d2_unhashed_quantile, "linear")
    shared = nw.col("short_prompt") * thresholds.d2_unhashed_prompt_share
    groups = (
        unhashed.group_by("group")
        .agg(nw.len().alias("calls"), short_prompt.alias("short_prompt"))
        .filter(nw.col("calls") >= thresholds.d2_unhashed_min_calls)
        .select("group", shared.alias("shared_tokens"))
    )
    alike = unhashed.join(groups, on="group", how="inner").filter(
        nw.col("shared_tokens") >= nw.col("cache_minimum") - QUANTILE_MARGIN
    )
    prefix_tokens = nw.min_horizontal("shared_tokens", nw.col("prompt_tokens").cast(nw.Float64))
    saving = _filter_saving(alike, ("group",), prefix_tokens, thresholds)
    return flag(saving, _UNHASHED, nw.col("saving_usd"))


def _filter_saving(
    calls: Calls, keys: Sequence[str], prefix_tokens: nw.Expr, thresholds: Thresholds
) -> Calls:
    """The calls with what caching would have saved each, where that is more than nothing in all.

    A call reads what was written in an earlier second, never in its own.
    """
    before = nw.col("second").shift(1).over(*keys, order_by="number")
    pause = nw.when(nw.col("before") < nw.col("second")).then(nw.col("second") - nw.col("before"))
    # Of the calls of one second only the first in order sees the earlier one; all share its pause.
    shared_pause = nw.col("pause").max().over(*keys, "second")
    saving = (
        nw.when(nw.col("pause") <= thresholds.d2_cache_seconds)
        .then(prefix_tokens * nw.col("read_discount_usd"))
        .otherwise(prefix_tokens * nw.col("write_premium_usd") * -1.0)
    )
    return (
        calls.with_columns((nw.col("at_us") // _SECOND_US).alias("second"))
        .with_columns(before.alias("before"))
        .with_columns(pause.alias("pause"))
        .with_columns(shared_pause.alias("pause"))
        .with_columns(saving.alias("saving_usd"))
        .with_columns(nw.col("saving_usd").sum().over(*keys).alias("total_usd"))
        .filter(nw.col("total_usd") > MARGIN)
    )


def _find_unread(calls: Calls) -> Calls:
    written, read = nw.col("cache_write_tokens"), nw.col("cached_tokens")
    loss = written * nw.col("write_premium_usd") - read * nw.col("read_discount_usd")
    losing = (
        calls.filter((written > 0) | (read > 0))
        .with_columns(loss.alias("loss_usd"))
        .with_columns(
            written.max().over("group").alias("most_written"),
            nw.col("loss_usd").sum().over("group").alias("total_usd"),
        )
        .filter(nw.col("most_written") > 0, nw.col("total_usd") > MARGIN)
    )
    return flag(losing, _UNREAD, nw.col("loss_usd"))


def advise(facts: Facts) -> str:
    read = rate(facts.cache_read_usd_per_mtok)
    full = rate(facts.input_usd_per_mtok)
    if facts.kind == "unread_writes":
        return (
            f"Cache less on {facts.route}: {facts.cache_write_tokens:,} tokens were written to the "
            f"cache of {facts.model} at {rate(facts.cache_write_usd_per_mtok)} a million instead "
            f"of {full}, and only {facts.cached_tokens:,} were read back at {read}. Drop the cache "
            "marker where a prompt does not come back within minutes, or send such calls together."
        )
    if facts.kind == "unhashed_prefix":
        return (
            f"Ask for prompt caching on {facts.route} (mark the end of the fixed instructions with "
            f"cache_control): {facts.calls:,} calls to {facts.model} sent prompts of "
            f"{facts.median_prompt_tokens:,.0f} tokens (median) and cached none. A cached token "
            f"costs {read} a million instead of {full}. "
            f"{percent(facts.thresholds.d2_unhashed_prompt_share * 100)} of a usual short prompt "
            "is taken to be the same each time; check that it is."
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
