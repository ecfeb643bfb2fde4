"""The three detectors that look at order and caps: d4, d5 and d6, call by call."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from math import fsum

from detectors import Thresholds
from tests.detectors.reference.calls import Call, groups
from tests.detectors.reference.wastes import (
    ESTIMATED,
    INFORMATIONAL,
    MARGIN,
    POSITIVE,
    VERIFIED,
    Waste,
    median,
    quantile,
)


def duplicate_calls(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    for _, members in groups(calls):
        lengths = Counter((call.prefix_hash, call.prompt) for call in members)
        hashes = Counter(call.prefix_hash for call in members)
        prompts: dict[Hashable, list[Call]] = defaultdict(list)
        shapes: dict[Hashable, list[Call]] = defaultdict(list)
        for call in members:
            key = (call.prefix_hash, call.prompt)
            share = lengths[key] / hashes[call.prefix_hash]
            is_short = call.prompt <= limits.d4_whole_prompt_tokens
            if call.prefix_hash and is_short and share >= limits.d4_same_prompt_share:
                prompts[key].append(call)
            elif call.completion >= limits.d4_same_shape_min_completion_tokens:
                shapes[(*key, call.completion)].append(call)
        yield from _duplicates("same_prompt", VERIFIED, _bursts(prompts, limits))
        dense = [burst for burst in _bursts(shapes, limits) if _is_dense(burst, members, limits)]
        yield from _duplicates("same_shape", ESTIMATED, dense)


def _bursts(identities: dict[Hashable, list[Call]], limits: Thresholds) -> Iterator[list[Call]]:
    for same in identities.values():
        for run in _split(same, limits.d4_gap_seconds):
            if len(run) >= limits.d4_min_burst_calls:
                yield run


def _split(calls: Sequence[Call], longest_gap_seconds: float) -> list[list[Call]]:
    """Cut calls in time order wherever the gap is longer than that."""
    runs: list[list[Call]] = []
    for call in calls:
        if runs and _gap(runs[-1][-1], call) <= longest_gap_seconds:
            runs[-1].append(call)
        else:
            runs.append([call])
    return runs


def _gap(earlier: Call, later: Call) -> float:
    return (later.microseconds - earlier.microseconds) / 1e6


def _is_dense(burst: Sequence[Call], members: Sequence[Call], limits: Thresholds) -> bool:
    span = members.index(burst[-1]) - members.index(burst[0]) + 1
    return len(burst) / span >= limits.d4_same_shape_min_share


def _duplicates(kind: str, confidence: str, bursts: Iterable[list[Call]]) -> Iterator[Waste]:
    savings = {call: call.cost for burst in bursts for call in burst[1:]}
    if fsum(savings.values()) > POSITIVE:
        group = next(iter(savings)).group
        yield Waste("d4_duplicate_calls", kind, group, confidence, savings)


def max_tokens_misfit(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    for group, members in groups(calls):
        capped = [call for call in members if call.declared > 0]
        cut = [
            call
            for call in capped
            if call.completion >= call.declared > limits.d5_truncated_above_tokens
        ]
        savings = {call: limits.d5_truncated_saving_share * call.cost for call in cut}
        if (
            cut
            and len(cut) >= limits.d5_truncated_min_calls
            and len(cut) / len(capped) >= limits.d5_truncated_min_share
            and fsum(savings.values()) > POSITIVE
        ):
            yield Waste("d5_max_tokens_misfit", "truncated", group, ESTIMATED, savings)
        if (
            capped
            and len(capped) >= limits.d5_oversized_min_calls
            and _is_oversized(capped, limits)
        ):
            nothing = dict.fromkeys(capped, 0.0)
            yield Waste("d5_max_tokens_misfit", "oversized_cap", group, INFORMATIONAL, nothing)


def _is_oversized(capped: Sequence[Call], limits: Thresholds) -> bool:
    cap = median([call.declared for call in capped])
    answer = quantile([call.completion for call in capped], limits.d5_oversized_quantile)
    return cap >= limits.d5_oversized_multiple * answer - MARGIN


def chatty_loop(calls: Sequence[Call], limits: Thresholds) -> Iterator[Waste]:
    for group, members in groups(calls):
        if not group[0]:
            continue
        savings: dict[Call, float] = {}
        confidence = INFORMATIONAL
        for session in _split(members, limits.d6_session_gap_seconds):
            if not _is_loop(session, limits):
                continue
            is_proven = _shares_a_prefix(session, limits)
            confidence = ESTIMATED if is_proven else confidence
            for number, call in enumerate(session):
                if number % limits.d6_calls_per_request:
                    saving = limits.d6_saving_share * call.prompt * call.input_rate
                    savings[call] = saving if is_proven else 0.0
        if savings and (confidence == INFORMATIONAL or fsum(savings.values()) > POSITIVE):
            yield Waste("d6_chatty_loop", "", group, confidence, savings)


def _is_loop(session: Sequence[Call], limits: Thresholds) -> bool:
    if len(session) < limits.d6_min_calls or len(session) < 2:
        return False
    short = [call for call in session if call.completion <= limits.d6_short_completion_tokens]
    gaps = [_gap(earlier, later) for earlier, later in pairwise(session)]
    return (
        _gap(session[0], session[-1]) <= limits.d6_max_session_seconds
        and len(short) / len(session) >= limits.d6_min_short_share
        and median(gaps) <= limits.d6_max_median_gap_seconds + MARGIN
        and not _overlaps(session, gaps, limits)
    )


def _overlaps(session: Sequence[Call], gaps: Sequence[float], limits: Thresholds) -> bool:
    """A loop waits for its answer: too many gaps near zero are many users."""
    if all(call.microseconds % 1_000_000 == 0 for call in session):
        return sum(gap == 0 for gap in gaps) / len(gaps) > limits.d6_max_zero_gap_share
    near = sum(gap < limits.d6_overlap_gap_seconds for gap in gaps)
    return near / len(gaps) > limits.d6_max_overlap_share


def _shares_a_prefix(session: Sequence[Call], limits: Thresholds) -> bool:
    hashes = Counter(call.prefix_hash for call in session if call.prefix_hash)
    most = max(hashes.values(), default=0)
    return most > 0 and most / len(session) >= limits.d6_min_hash_share
