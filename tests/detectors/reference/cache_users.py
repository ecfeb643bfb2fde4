"""d2, second half: caches that expire before they are read, and writes that nothing reads."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from tests.detectors.reference.caching import DETECTOR
from tests.detectors.reference.calls import Call, groups, seconds_between
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import ESTIMATED, VERIFIED, Waste, is_positive, waste

Run = list[Call]


def cache_users(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = []
    for group, members in groups(calls):
        expired: dict[Call, float] = {}
        unread: dict[Call, float] = {}
        for runs in _hour_runs(members, limits):
            savings = [_lifetime_savings(run, limits) for run in runs]
            left: dict[Call, float] = {}
            for run, saving in zip(runs, savings, strict=True):
                if is_positive(saving):
                    expired |= saving
                else:
                    left |= {call: _write_loss(call) for call in run}
            unread |= left if is_positive(left) else {}
        low = (limits.d2_short_lifetime_low_share, 1.0)
        if expired:
            found.append(waste((DETECTOR, "short_lifetime"), group, ESTIMATED, expired, low))
        if unread:
            found.append(waste((DETECTOR, "unread_writes"), group, VERIFIED, unread))
    return found


def _hour_runs(calls: Sequence[Call], limits: Limits) -> list[list[Run]]:
    """Return the hour runs of every hash of a group, no hash being a value of its own."""
    by_hash: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.uses_cache and call.price.has_cache_read:
            by_hash[call.hash].append(call)
    return [_split(members, limits.d2_hour_cache_seconds) for members in by_hash.values()]


def _split(calls: list[Call], seconds: float) -> list[Run]:
    runs = [[calls[0]]]
    for before, call in pairwise(calls):
        if seconds_between(before, call) > seconds:
            runs.append([])
        runs[-1].append(call)
    return runs


def _lifetime_savings(run: Run, limits: Limits) -> dict[Call, float]:
    """Return what each call of an hour run would save with the one-hour cache."""
    if not all(call.price.has_hour_rate for call in run):
        return {}
    rewritten = dict.fromkeys(run, 0)
    for before, call in pairwise(run):
        if seconds_between(before, call) > limits.d2_cache_seconds:
            rewritten[call] = _rewritten(before, call, limits)
    return {call: _lifetime_saving(call, tokens) for call, tokens in rewritten.items()}


def _rewritten(before: Call, call: Call, limits: Limits) -> int:
    known = before.cached + before.written
    grown = known + before.completion + limits.d2_grown_tokens
    if not call.hash and not known <= call.cached + call.written <= grown:
        return 0
    return min(call.written - call.written_1h, known)


def _lifetime_saving(call: Call, rewritten: int) -> float:
    rates = call.price
    longer = call.written - call.written_1h - rewritten
    dearer = longer * (rates.cache_write_1h - rates.cache_write)
    return rewritten * (rates.cache_write - rates.cache_read) - dearer


def _write_loss(call: Call) -> float:
    """Return what the call's cache writes cost more than its reads save."""
    rates = call.price
    short = (call.written - call.written_1h) * (rates.cache_write - rates.input)
    hour = call.written_1h * (rates.cache_write_1h - rates.input)
    return short + hour - call.cached * (rates.input - rates.cache_read)
