"""The three detectors that compare prices or prompts: d1, d2 and d3, call by call."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import fsum

from detectors import Thresholds
from tests.detectors.reference import facts
from tests.detectors.reference.calls import Call, groups
from tests.detectors.reference.pricing import price
from tests.detectors.reference.wastes import (
    ESTIMATED,
    MARGIN,
    POSITIVE,
    VERIFIED,
    Waste,
    median,
    quantile,
)


def model_overkill(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    for group, members in groups(calls):
        cheaper = facts.cheaper_model(members[0].price.vendor, members[0].price.model)
        answers = [call.completion for call in members]
        if cheaper is None or len(members) < limits.d1_min_calls:
            continue
        if median(answers) > limits.d1_median_completion_tokens + MARGIN:
            continue
        if quantile(answers, 0.9) > limits.d1_p90_completion_tokens + MARGIN:
            continue
        savings = {
            call: saving
            for call in members
            if call.completion <= limits.d1_max_completion_tokens
            and (saving := _cheaper_saving(call, cheaper)) > POSITIVE
        }
        if savings:
            yield Waste("d1_model_overkill", "", group, ESTIMATED, savings, cheaper)


def _cheaper_saving(call: Call, cheaper: str) -> float:
    there = price(call.record, cheaper)
    if there is None:
        return 0.0
    here = call.price
    is_cheaper = there.base_input < here.base_input and there.base_output < here.base_output
    return here.cost - there.cost if is_cheaper else 0.0


def missed_caching(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    for _, members in groups(calls):
        yield from _uncached_prefix(members, limits)
        yield from _unhashed_prefix(members, limits)
        yield from _unread_writes(members)


def _uncached_prefix(members: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    minimum = facts.minimum_cacheable(members[0].price.model)
    if minimum > limits.d2_prefix_tokens:
        return
    by_hash: dict[str, list[Call]] = defaultdict(list)
    for call in members:
        if _is_uncached(call, minimum) and call.prefix_hash and call.price.has_cache_read:
            by_hash[call.prefix_hash].append(call)
    savings: dict[Call, float] = {}
    for same in by_hash.values():
        saved = _cache_savings(same, lambda call: min(limits.d2_prefix_tokens, call.prompt), limits)
        if len(same) >= limits.d2_min_hash_calls and fsum(saved.values()) > POSITIVE:
            savings |= saved
    if savings:
        yield Waste("d2_missed_caching", "uncached_prefix", members[0].group, ESTIMATED, savings)


def _unhashed_prefix(members: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    model = members[0].price.model
    minimum = facts.minimum_cacheable(model)
    if not members[0].route or not facts.needs_cache_opt_in(model):
        return
    candidates = [
        call
        for call in members
        if _is_uncached(call, minimum)
        and (not call.prefix_hash or minimum > limits.d2_prefix_tokens)
    ]
    if len(candidates) < max(limits.d2_unhashed_min_calls, 1):
        return
    tenth = quantile([call.prompt for call in candidates], limits.d2_unhashed_quantile)
    shared = limits.d2_unhashed_prompt_share * tenth
    savings = _cache_savings(candidates, lambda call: min(shared, call.prompt), limits)
    if shared >= minimum - MARGIN and fsum(savings.values()) > POSITIVE:
        yield Waste("d2_missed_caching", "unhashed_prefix", members[0].group, ESTIMATED, savings)


def _unread_writes(members: Sequence[Call]) -> Iterator[Waste]:
    if not any(call.cache_write for call in members):
        return
    savings = {
        call: call.cache_write * (call.price.cache_write - call.price.input)
        - call.cached * (call.price.input - call.price.cache_read)
        for call in members
        if call.cache_write or call.cached
    }
    if fsum(savings.values()) > POSITIVE:
        yield Waste("d2_missed_caching", "unread_writes", members[0].group, VERIFIED, savings)


def _is_uncached(call: Call, minimum: int) -> bool:
    return call.cached == 0 and call.cache_write == 0 and call.prompt >= minimum


def _cache_savings(
    calls: Sequence[Call], shared_tokens: Callable[[Call], float], limits: Thresholds
) -> dict[Call, float]:
    """What each call would save: a read where an earlier second is near enough, else a write."""
    seconds = sorted({call.second for call in calls})
    savings = {}
    for call in calls:
        position = bisect_left(seconds, call.second)
        gap = call.second - seconds[position - 1] if position else None
        rates = call.price
        if gap is not None and gap <= limits.d2_cache_seconds:
            savings[call] = shared_tokens(call) * (rates.input - rates.cache_read)
        else:
            savings[call] = -shared_tokens(call) * (rates.cache_write - rates.input)
    return savings


def context_bloat(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    bins: dict[int, list[Call]] = defaultdict(list)
    for call in calls:
        bins[_answer_bin(call)].append(call)
    norms = {
        number: median([call.prompt for call in comparable]) for number, comparable in bins.items()
    }
    for group, members in groups(calls):
        savings: dict[Call, float] = {}
        for number, comparable in bins.items():
            inside = [call for call in members if _answer_bin(call) == number]
            norm = norms[number]
            if _is_bloated(inside, comparable, norm, limits):
                savings |= {
                    call: limits.d3_saving_share * (call.prompt - norm) * call.input_rate
                    for call in inside
                    if call.prompt > norm
                }
        if fsum(savings.values()) > POSITIVE:
            yield Waste("d3_context_bloat", "", group, ESTIMATED, savings)


def _answer_bin(call: Call) -> int:
    """The whole part of log2 of the answer's length, exactly."""
    return max(call.completion, 1).bit_length() - 1


def _is_bloated(
    inside: Sequence[Call], comparable: Sequence[Call], norm: float, limits: Thresholds
) -> bool:
    if not inside or len(inside) < limits.d3_min_calls:
        return False
    if len(comparable) < limits.d3_bin_min_calls:
        return False
    if len({call.route for call in comparable}) < limits.d3_bin_min_routes:
        return False
    if len(inside) / len(comparable) > limits.d3_max_bin_share:
        return False
    prompts = [call.prompt for call in inside]
    return quantile(prompts, 0.9) > limits.d3_p90_multiple * norm + MARGIN
