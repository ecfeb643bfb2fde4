"""d5: answers that are cut off and asked for again, and limits far above any answer."""

from collections.abc import Sequence

from tests.detectors.reference.calls import Call, Group, groups, seconds_between
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    ESTIMATED,
    Waste,
    at_least,
    informational,
    is_positive,
    median,
    quantile,
    waste,
)

DETECTOR = "d5_max_tokens_misfit"


def max_tokens_misfit(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = []
    for group, members in groups(calls):
        found += _truncated(group, members, limits)
        found += _oversized(group, members, limits)
    return found


def _truncated(group: Group, calls: Sequence[Call], limits: Limits) -> list[Waste]:
    declared = [call for call in calls if call.declared > 0]
    cut = [
        call
        for call in declared
        if call.completion >= call.declared > limits.d5_truncated_above_tokens
    ]
    if len(cut) < limits.d5_truncated_min_calls or not at_least(
        len(cut) / len(declared), limits.d5_truncated_min_share
    ):
        return []
    again = _asked_again(calls, limits)
    is_cut = set(cut)
    whole = [call for call in declared if call not in is_cut]
    repeated = [call for call in cut if call in again]
    after_cut = len(repeated) / len(cut)
    after_whole = sum(call in again for call in whole) / len(whole) if whole else 0.0
    kind = (DETECTOR, "truncated")
    if not at_least(after_cut - after_whole, limits.d5_again_min_excess_share):
        return [informational(kind, group, cut)]
    due = (after_cut - after_whole) / after_cut if after_cut else 0.0
    savings = {
        call: due * _repeat_cost(call, again[call], limits) if call in again else 0.0
        for call in cut
    }
    if not is_positive(savings):
        return []
    ends = (limits.d5_truncated_low_share, limits.d5_truncated_high_multiple)
    return [waste(kind, group, ESTIMATED, savings, ends)]


def _asked_again(calls: Sequence[Call], limits: Limits) -> dict[Call, Call]:
    """Return the call that asks again, for each call of a group that one follows so."""
    again = {}
    next_call: Call | None = None
    next_of_hash: dict[str, Call] = {}
    for call in reversed(calls):
        following = next_of_hash.get(call.hash) if call.hash else next_call
        if following is not None and _is_repeat(call, following, limits):
            again[call] = following
        next_call = call
        next_of_hash[call.hash] = call
    return again


def _is_repeat(call: Call, following: Call, limits: Limits) -> bool:
    longest = call.prompt + call.completion + limits.d5_again_tokens
    is_soon = seconds_between(call, following) <= limits.d5_again_seconds
    return is_soon and call.prompt <= following.prompt <= longest


def _repeat_cost(call: Call, following: Call, limits: Limits) -> float:
    """Return the call's cost if its answer was thrown away, else that of its prompt."""
    if following.prompt < call.prompt + limits.d5_thrown_away_share * call.completion:
        return call.cost
    return call.prompt * call.input_rate


def _oversized(group: Group, calls: Sequence[Call], limits: Limits) -> list[Waste]:
    declared = [call for call in calls if call.declared > 0]
    if len(declared) < limits.d5_oversized_min_calls:
        return []
    longest = quantile([call.completion for call in declared], limits.d5_oversized_quantile)
    usual = median([call.declared for call in declared])
    if not at_least(usual, limits.d5_oversized_multiple * longest):
        return []
    return [informational((DETECTOR, "oversized_cap"), group, declared)]
