"""Writes the fix and the formula of a finding about caching."""

from detectors.rules.detector import FlaggedCalls, per_mtok
from detectors.wording.figures import percent, rate


def advise(flagged: FlaggedCalls) -> str:
    return {
        "uncached_prefix": _advise_caching,
        "unhashed_prefix": _advise_hashes,
        "short_lifetime": _advise_the_hour,
        "unread_writes": _advise_less,
    }[flagged.kind](flagged)


def _advise_caching(flagged: FlaggedCalls) -> str:
    share = percent(100 * flagged.sharing_calls / flagged.calls) if flagged.calls else "0%"
    return (
        f"Cache the prompts of {flagged.route}: {flagged.calls:,} calls to {flagged.model} cached "
        f"nothing, although {flagged.shared_part} are the same as in a call shortly before "
        f"(median {flagged.median_pause_seconds:,.0f} seconds earlier) in {share} of calls. They "
        f"paid {rate(flagged.input_usd_per_mtok)} per million tokens; a cache read costs "
        f"{rate(flagged.cache_read_usd_per_mtok)}. Keep the fixed part first and unchanged (in "
        "conversations, all earlier turns), and opt in to caching where the provider requires it. "
        "We assume that equal hashes mean equal text up to the counted tokens."
    )


def _advise_hashes(flagged: FlaggedCalls) -> str:
    return (
        f"Send prefix_hash with the calls of {flagged.route} to find out what caching would save: "
        f"{flagged.calls:,} calls to {flagged.model} sent prompts of "
        f"{flagged.median_prompt_tokens:,.0f} tokens (median) and cached none. Cached tokens cost "
        f"{rate(flagged.cache_read_usd_per_mtok)} per million instead of "
        f"{rate(flagged.input_usd_per_mtok)}, but counts don't show whether the prompts repeat, so "
        "no savings are claimed."
    )


def _advise_the_hour(flagged: FlaggedCalls) -> str:
    minutes = flagged.thresholds.d2_cache_seconds / 60
    return (
        f"Use the one-hour cache on {flagged.route}: its calls to {flagged.model} are too far "
        f"apart for a {minutes:g}-minute cache (median pause "
        f"{flagged.median_pause_seconds / 60:,.1f} minutes), so they write the same text again at "
        f"{rate(flagged.cache_write_usd_per_mtok)} per million tokens instead of reading it at "
        f"{rate(flagged.cache_read_usd_per_mtok)}. Set the lifetime to one hour "
        '(cache_control with "ttl": "1h"). Each write then costs more; the savings account for it.'
    )


def _advise_less(flagged: FlaggedCalls) -> str:
    advice = (
        "Remove the cache marker from prompts that don't repeat within minutes, or send calls that "
        "share a prompt closer together."
    )
    if flagged.largest_basis:
        advice = (
            "Calls follow each other within minutes and still write nearly all of each prompt: put "
            "the fixed part first, before anything that changes, and the marker at its end."
        )
    read = f"only {flagged.cached_tokens:,}" if flagged.cached_tokens else "none"
    return (
        f"Cache less on {flagged.route}: {flagged.cache_write_tokens:,} tokens were written to "
        f"the cache of {flagged.model} at {rate(flagged.cache_write_usd_per_mtok)} per million "
        f"instead of {rate(flagged.input_usd_per_mtok)}, and {read} were read back at "
        f"{rate(flagged.cache_read_usd_per_mtok)}. {advice}"
    )


def write_formula(flagged: FlaggedCalls) -> str:
    full, read = flagged.input_usd_per_mtok, flagged.cache_read_usd_per_mtok
    write, hour = flagged.cache_write_usd_per_mtok, flagged.cache_write_1h_usd_per_mtok
    discount, surcharge = per_mtok(full - read), per_mtok(write - full)
    tokens, written = f"{flagged.total_prefix_tokens:,.0f}", f"{flagged.total_basis:,.0f}"
    total = f"over {flagged.counted} that cost {flagged.cost}: {flagged.saving}"
    if flagged.kind == "unread_writes":
        return (
            f"{flagged.cache_write_tokens:,} tokens written × surcharge ({surcharge}, for one hour "
            f"{per_mtok(hour - full)}) − {flagged.cached_tokens:,} tokens read × discount "
            f"({discount}), {total}"
        )
    if flagged.kind == "short_lifetime":
        return (
            f"{tokens} tokens written again × (write rate − read rate: {per_mtok(write - read)}) − "
            f"{written} tokens written once × surcharge of the one-hour cache "
            f"({per_mtok(hour - write)}), {total}"
        )
    return (
        f"{tokens} tokens in common with an earlier call × (input rate − cache-read rate: "
        f"{discount}) − {written} tokens written × surcharge ({surcharge}), {total}"
    )
