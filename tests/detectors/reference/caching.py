"""d2, first half: prefixes that are sent again and again without a cache."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from tests.detectors.reference.calls import Call, Group, groups
from tests.detectors.reference.catalog import minimum_cacheable, needs_cache_opt_in
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    ESTIMATED,
    Waste,
    at_least,
    informational,
    is_positive,
    quantile,
)

DETECTOR = "d2_missed_caching"
# The longest hash first, as a pair by it counts first.
LEVELS: dict[str, Callable[[Call], str]] = {
    "h64": lambda call: call.hash_64k,
    "h16": lambda call: call.hash_16k,
    "h": lambda call: call.hash,
}


@dataclass(frozen=True, slots=True)
class Pair:
    """The earlier call whose prefix a call could have read, and the hash that shows it."""

    call: Call
    level: str


def uncached_prefixes(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = [_uncached(group, members, limits) for group, members in groups(calls)]
    return [waste for waste in found if waste is not None]


def cacheable(group_calls: Sequence[Call], limits: Limits) -> dict[Call, float]:
    """Return P of every call that has a pair."""
    calls = hashed_calls(group_calls, limits)
    return _prefixes(pairs_of(calls, limits), limits)


def hashed_calls(calls: Sequence[Call], limits: Limits) -> list[Call]:
    """Return the calls without a cache whose prefix is known and shared by enough of them."""
    plain = [
        call
        for call in calls
        if not call.uses_cache
        and call.hash
        and call.prompt >= _minimum(call)
        and call.price.has_cache_read
    ]
    shared = Counter(call.hash for call in plain)
    return [call for call in plain if shared[call.hash] >= limits.d2_min_hash_calls]


def pairs_of(calls: Sequence[Call], limits: Limits) -> dict[Call, Pair]:
    """Return the pair of every call that has one; the calls are in time order."""
    earlier: dict[tuple[str, str], list[Call]] = defaultdict(list)
    pairs = {}
    for call in calls:
        for level, value in LEVELS.items():
            known = earlier[level, value(call)] if value(call) else []
            near = _nearest(known, call.second, limits.d2_cache_seconds)
            if near is not None:
                pairs[call] = Pair(near, level)
                break
        for level, value in LEVELS.items():
            earlier[level, value(call)].append(call)
    return pairs


def _nearest(earlier: Sequence[Call], second: int, seconds: int) -> Call | None:
    """Return the last call of the nearest earlier second, if that is near enough."""
    for call in reversed(earlier):
        if call.second < second:
            return call if call.second >= second - seconds else None
    return None


def _prefixes(pairs: dict[Call, Pair], limits: Limits) -> dict[Call, float]:
    conversational = _conversational(pairs, limits)
    tokens = {
        "h64": limits.d2_prefix_64k_tokens,
        "h16": limits.d2_prefix_16k_tokens,
        "h": limits.d2_prefix_tokens,
    }
    prefixes = {}
    for call, pair in pairs.items():
        before = pair.call
        if pair.level in conversational and call.prompt >= before.prompt + before.completion:
            prefix = before.prompt
        else:
            prefix = min(tokens[pair.level], call.prompt, before.prompt)
        prefixes[call] = float(prefix if prefix >= _minimum(call) else 0)
    return prefixes


def _conversational(pairs: dict[Call, Pair], limits: Limits) -> set[str]:
    """Return the levels at which most calls continue the call that they are paired with."""
    total: Counter[str] = Counter()
    growth: Counter[str] = Counter()
    for call, pair in pairs.items():
        before = pair.call
        total[pair.level] += 1
        growth[pair.level] += call.prompt >= before.prompt + before.completion
        growth[pair.level] -= before.prompt >= call.prompt + call.completion
    share = limits.d2_conversation_share
    return {level for level in total if at_least(growth[level] / total[level], share)}


def _uncached(group: Group, group_calls: Sequence[Call], limits: Limits) -> Waste | None:
    calls = hashed_calls(group_calls, limits)
    pairs = pairs_of(calls, limits)
    prefixes = _prefixes(pairs, limits)
    read = {pair.call for pair in pairs.values()}
    by_hash: dict[str, dict[Call, float]] = defaultdict(dict)
    for call in calls:
        saving = 0.0
        if call in pairs:
            saving = _saving(call, prefixes[call], prefixes.get(pairs[call].call, 0.0))
        elif call not in read:
            saving = -_useless_write(call, limits)
        by_hash[call.hash][call] = saving
    savings: dict[Call, float] = {}
    for of_hash in by_hash.values():
        savings |= of_hash if is_positive(of_hash) else {}
    if not savings:
        return None
    lows = {call: _low(call, prefixes.get(call, 0.0)) for call in savings}
    details = {call: {"P": prefixes.get(call, 0.0)} for call in savings}
    kind = (DETECTOR, "uncached_prefix")
    return Waste(*kind, group, ESTIMATED, savings, lows, dict(savings), details=details)


def _saving(call: Call, prefix: float, written_before: float) -> float:
    rates = call.price
    added = max(0.0, prefix - written_before)
    return prefix * (rates.input - rates.cache_read) - added * (rates.cache_write - rates.input)


def _useless_write(call: Call, limits: Limits) -> float:
    tokens = min(limits.d2_prefix_tokens, call.prompt)
    if tokens < _minimum(call):
        return 0.0
    return tokens * (call.price.cache_write - call.price.input)


def _low(call: Call, prefix: float) -> float:
    rates = call.price
    added = max(0.0, call.prompt - prefix)
    return prefix * (rates.input - rates.cache_read) - added * (rates.cache_write - rates.input)


def unhashed_prefixes(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = []
    for group, members in groups(calls):
        plain = [
            call
            for call in members
            if not call.uses_cache
            and not call.hash
            and call.prompt >= _minimum(call)
            and call.price.has_cache_read
        ]
        if not group[0] or len(plain) < limits.d2_unhashed_min_calls:
            continue
        lowest = quantile([call.prompt for call in plain], limits.d2_unhashed_quantile)
        is_long = at_least(lowest, limits.d2_unhashed_minimum_multiple * _minimum(plain[0]))
        if is_long and needs_cache_opt_in(plain[0].price.model):
            found.append(informational((DETECTOR, "unhashed_prefix"), group, plain))
    return found


def predicted_tokens(calls: Sequence[Call], limits: Limits) -> float:
    """Return how many prompt tokens a cache would serve, by the definition of P."""
    return fsum(fsum(cacheable(members, limits).values()) for _, members in groups(calls))


def _minimum(call: Call) -> int:
    return minimum_cacheable(call.price.model)
