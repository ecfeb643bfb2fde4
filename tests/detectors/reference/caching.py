"""d2, first half: prefixes that are sent again and again without a cache."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class Pair:
    """An earlier call that begins like a call, and up to which level it does."""

    call: Call
    level: int


@dataclass(frozen=True, slots=True)
class Length:
    """So many tokens, between two others."""

    low: float
    stated: float
    high: float


def uncached_prefixes(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = [_uncached(group, members, limits) for group, members in groups(calls)]
    return [waste for waste in found if waste is not None]


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
    pairs = {}
    for number, call in enumerate(calls):
        candidates = []
        for at in range(number - 1, -1, -1):
            if call.second - calls[at].second > limits.d2_cache_seconds:
                break
            if calls[at].second < call.second:
                candidates.append(calls[at])
        found = [Pair(each, highest_equal(call, each)) for each in candidates]
        best = max((pair.level for pair in found), default=0)
        if best:
            # The candidates are listed from the last in time order on.
            pairs[call] = next(pair for pair in found if pair.level == best)
    return pairs


def highest_equal(call: Call, other: Call) -> int:
    both = zip(call.levels, other.levels, strict=True)
    return max((at for at, (a, b) in enumerate(both, 1) if a and a == b), default=0)


def shared_length(call: Call, pair: Pair, limits: Limits) -> Length:
    """Return how many tokens two calls have in common that are equal up to the pair's level."""
    if not pair.level:
        return Length(0, 0, 0)
    characters = dict(enumerate(limits.d2_level_characters, 1))
    further = next_level(call, pair)
    length = characters[pair.level] // 4
    most = min(call.prompt, pair.call.prompt)
    if with_levels(call, pair.call) and call.given < len(characters):
        low = characters[pair.level] * call.prompt // characters[call.given + 1]
        high = call.prompt
        if further:
            high = -(-characters[further] * call.prompt // characters[call.given])
        length = min(max(length, low), high)
    else:
        low, high = length, characters[further] // 4 if further else call.prompt
    return Length(min(low, most), min(length, most), min(high, most))


def with_levels(call: Call, other: Call) -> bool:
    return call.given > 0 and other.given > 0


def next_level(call: Call, pair: Pair) -> int:
    """Return the lowest level above the pair's that both calls have, 0 where there is none."""
    both = enumerate(zip(call.levels, pair.call.levels, strict=True), 1)
    return next((at for at, (a, b) in both if at > pair.level and a and b), 0)


def _reads(pairs: dict[Call, Pair], limits: Limits) -> dict[Call, Length]:
    """Return P, P_low and P_high of every call with a pair."""
    conversational = _conversational(pairs, limits)
    reads = {}
    for call, pair in pairs.items():
        length = shared_length(call, pair, limits)
        is_turn = pair.level in conversational and _grows(call, pair.call)
        differs = with_levels(call, pair.call) and next_level(call, pair)
        if is_turn and not differs:
            length = Length(*[pair.call.prompt] * 3)
        least = _minimum(call)
        ends = (length.low, length.stated, length.high)
        reads[call] = Length(*(float(end) if end >= least else 0.0 for end in ends))
    return reads


def _grows(call: Call, before: Call) -> bool:
    return call.prompt >= before.prompt + before.visible


def _conversational(pairs: dict[Call, Pair], limits: Limits) -> set[int]:
    """Return the levels at which most calls continue the call that they are paired with."""
    growth: dict[int, list[int]] = defaultdict(list)
    for call, pair in pairs.items():
        before = pair.call
        shrinks = before.prompt >= call.prompt + call.visible
        growth[pair.level].append(_grows(call, before) - shrinks)
    every = [each for of_level in growth.values() for each in of_level]
    found = set()
    for level, of_level in growth.items():
        own = every if len(of_level) < limits.d2_conversation_min_calls else of_level
        if at_least(sum(own) / len(own), limits.d2_conversation_share):
            found.add(level)
    return found


def _uncached(group: Group, group_calls: Sequence[Call], limits: Limits) -> Waste | None:
    calls = hashed_calls(group_calls, limits)
    pairs = pairs_of(calls, limits)
    reads = _reads(pairs, limits)
    used = {pair.call for pair in pairs.values()}
    none = Length(0, 0, 0)
    by_hash: dict[str, dict[Call, float]] = defaultdict(dict)
    highs: dict[Call, float] = {}
    for call in calls:
        own, before = reads.get(call, none), none
        if call in pairs:
            before = reads.get(pairs[call].call, none)
        useless = _useless_write(call, limits) if call not in pairs and call not in used else 0.0
        by_hash[call.hash][call] = _saving(call, own.stated, before.stated) - useless
        highs[call] = _saving(call, own.high, before.high) - useless
    savings: dict[Call, float] = {}
    for of_hash in by_hash.values():
        savings |= of_hash if is_positive(of_hash) else {}
    if not savings:
        return None
    lows = {call: _low(call, reads.get(call, none).low) for call in savings}
    details = {call: {"P": reads.get(call, none).stated} for call in savings}
    highs = {call: highs[call] for call in savings}
    kind = (DETECTOR, "uncached_prefix")
    return Waste(*kind, group, ESTIMATED, savings, lows, highs, details=details)


def _saving(call: Call, prefix: float, written_before: float) -> float:
    rates = call.price
    added = max(0.0, prefix - written_before)
    return prefix * (rates.input - rates.cache_read) - added * (rates.cache_write - rates.input)


def _useless_write(call: Call, limits: Limits) -> float:
    tokens = min(limits.d2_level_characters[0] // 4, call.prompt)
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


def _minimum(call: Call) -> int:
    return minimum_cacheable(call.price.model)
