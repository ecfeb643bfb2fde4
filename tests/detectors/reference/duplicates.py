"""d4: the same call again within seconds."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

from tests.detectors.reference.calls import Call, Group, groups, seconds_between
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    ESTIMATED,
    INFORMATIONAL,
    VERIFIED,
    Waste,
    at_least,
    is_positive,
    waste,
)

DETECTOR = "d4_duplicate_calls"
Burst = list[Call]


def duplicate_calls(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = []
    for group, members in groups(calls):
        whole = _whole_prompts(members, limits)
        found += _same_prompt(group, [call for call in members if call in whole], limits)
        shaped = [call for call in members if call not in whole]
        found += _same_shape(group, shaped, members, limits)
    return found


def _whole_prompts(calls: Sequence[Call], limits: Limits) -> set[Call]:
    """Return the calls whose hash covers all of the prompt."""
    of_hash = Counter(call.hash for call in calls)
    of_length = Counter((call.hash, call.prompt) for call in calls)
    return {
        call
        for call in calls
        if call.hash
        and call.prompt <= limits.d4_whole_prompt_tokens
        and at_least(
            of_length[call.hash, call.prompt] / of_hash[call.hash], limits.d4_same_prompt_share
        )
    }


def _same_prompt(group: Group, calls: Sequence[Call], limits: Limits) -> list[Waste]:
    bursts = _bursts([((call.hash, call.prompt), call) for call in calls], limits)
    savings = _repeated(bursts)
    if not is_positive(savings):
        return []
    confidence = _confidence(bursts, limits)
    if confidence == INFORMATIONAL:
        savings = dict.fromkeys(savings, 0.0)
    factors = (0.0, 1.0) if confidence == ESTIMATED else (1.0, 1.0)
    return [waste((DETECTOR, "same_prompt"), group, confidence, savings, factors)]


def _confidence(bursts: list[Burst], limits: Limits) -> str:
    flagged = sum(len(burst) - 1 for burst in bursts)
    equal = sum(call.completion == burst[0].completion for burst in bursts for call in burst[1:])
    if at_least(equal / flagged, limits.d4_equal_answers_share):
        return VERIFIED
    sizes = Counter(len(burst) for burst in bursts)
    usual = max(sizes.values()) / len(bursts)
    if len(bursts) >= limits.d4_sampling_min_bursts and at_least(usual, limits.d4_sampling_share):
        return INFORMATIONAL
    return ESTIMATED


def _same_shape(
    group: Group, calls: Sequence[Call], members: Sequence[Call], limits: Limits
) -> list[Waste]:
    number = {call: position for position, call in enumerate(members)}
    bursts = [
        burst
        for burst in _bursts(
            [
                ((call.hash, call.prompt, call.completion), call)
                for call in calls
                if call.completion >= limits.d4_same_shape_min_completion_tokens
            ],
            limits,
        )
        if at_least(
            len(burst) / (number[burst[-1]] - number[burst[0]] + 1), limits.d4_same_shape_min_share
        )
    ]
    savings = _repeated(bursts)
    if not is_positive(savings):
        return []
    return [waste((DETECTOR, "same_shape"), group, ESTIMATED, savings, (0.0, 1.0))]


def _bursts(calls: Sequence[tuple[Hashable, Call]], limits: Limits) -> list[Burst]:
    """Return the bursts of all identities; the calls are in time order."""
    by_identity: dict[Hashable, list[Call]] = defaultdict(list)
    for identity, call in calls:
        by_identity[identity].append(call)
    bursts: list[Burst] = []
    for alike in by_identity.values():
        bursts.append([alike[0]])
        for before, call in pairwise(alike):
            if seconds_between(before, call) > limits.d4_gap_seconds:
                bursts.append([])
            bursts[-1].append(call)
    return [burst for burst in bursts if len(burst) >= limits.d4_min_burst_calls]


def _repeated(bursts: list[Burst]) -> dict[Call, float]:
    return {call: call.cost for burst in bursts for call in burst[1:]}
