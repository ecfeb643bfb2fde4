"""d6: one item per call where one call could take many."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise

from tests.detectors.reference.caching import (
    Length,
    Pair,
    highest_equal,
    shared_length,
    with_levels,
)
from tests.detectors.reference.calls import Call, groups, seconds_between
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.wastes import (
    ESTIMATED,
    Waste,
    at_least,
    at_most,
    informational,
    is_positive,
    median,
)

DETECTOR = "d6_chatty_loop"
Session = list[Call]


def chatty_loop(calls: Sequence[Call], limits: Limits) -> list[Waste]:
    found = []
    for group, members in groups(calls):
        if not group[0]:
            continue
        savings: dict[Call, float] = {}
        highs: dict[Call, float] = {}
        unproven: list[Call] = []
        for session in _sessions(members, limits):
            if not _is_loop(session, limits):
                continue
            shared = [
                (before, call)
                for at, (before, call) in enumerate(pairwise(session), 1)
                if at % limits.d6_calls_per_request
            ]
            if not _is_hashed(session, limits):
                unproven += [call for _, call in shared]
                continue
            for before, call in shared:
                repeated = _repeated(before, call, limits)
                savings[call] = repeated.stated * call.input_rate
                highs[call] = repeated.high * call.input_rate
        if is_positive(savings):
            lows = {call: limits.d6_low_share * saving for call, saving in savings.items()}
            kind = (DETECTOR, "hashed")
            found.append(Waste(*kind, group, ESTIMATED, savings, lows, highs))
        if unproven:
            found.append(informational((DETECTOR, "unhashed"), group, unproven))
    return found


def _repeated(before: Call, call: Call, limits: Limits) -> Length:
    """Return the tokens that a call repeats of the one before it."""
    if with_levels(call, before):
        return shared_length(call, Pair(before, highest_equal(call, before)), limits)
    shares = (limits.d6_saving_share, limits.d6_high_saving_share)
    return Length(0.0, *(share * call.prompt for share in shares))


def _sessions(calls: Sequence[Call], limits: Limits) -> list[Session]:
    by_id: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_id[call.session].append(call)
    sessions = []
    for alike in by_id.values():
        sessions.append([alike[0]])
        for before, call in pairwise(alike):
            if seconds_between(before, call) > limits.d6_session_gap_seconds:
                sessions.append([])
            sessions[-1].append(call)
    return sessions


def _is_loop(session: Session, limits: Limits) -> bool:
    if len(session) < limits.d6_min_calls:
        return False
    gaps = [seconds_between(before, call) for before, call in pairwise(session)]
    short = sum(call.visible <= limits.d6_short_completion_tokens for call in session)
    return (
        seconds_between(session[0], session[-1]) <= limits.d6_max_session_seconds
        and at_least(short / len(session), limits.d6_min_short_share)
        and at_most(median(gaps), limits.d6_max_median_gap_seconds)
        and _is_sequential(session, gaps, limits)
        and _waits_for_answers(session, gaps, limits)
    )


def _is_sequential(session: Session, gaps: list[float], limits: Limits) -> bool:
    """Check that calls rarely overlap; whole seconds show that only of calls of one second."""
    if all(call.microseconds % 1_000_000 == 0 for call in session):
        return at_most(sum(gap == 0 for gap in gaps) / len(gaps), limits.d6_max_zero_gap_share)
    close = sum(gap < limits.d6_overlap_gap_seconds for gap in gaps)
    return at_most(close / len(gaps), limits.d6_max_overlap_share)


def _waits_for_answers(session: Session, gaps: list[float], limits: Limits) -> bool:
    timed = sum(call.latency is not None for call in session)
    if not at_least(timed / len(session), limits.d6_min_latency_share):
        return True
    pauses = [
        gap - call.latency / 1_000
        for gap, call in zip(gaps, session[:-1], strict=True)
        if call.latency is not None
    ]
    return at_least(median(pauses), -limits.d6_overlap_gap_seconds)


def _is_hashed(session: Session, limits: Limits) -> bool:
    hashes = Counter(call.hash for call in session if call.hash)
    most = max(hashes.values(), default=0)
    return at_least(most / len(session), limits.d6_min_hash_share)
