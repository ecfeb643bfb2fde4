"""Which spans are the same call: repeats, wrappers, and calls that two instrumentations trace.

Each span of a call has a key of a fixed size, stored beside its record. Closing an import compares
the keys of all its spans; the records themselves are not read again.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

# Trace, span, parent, start, end, scope, response, counts.
KEY: Final = Struct(">16s8s8sQQ8s8s8s")
# Trace, span, parent: of a span that is no call, but may be between two calls.
LINK: Final = Struct(">16s8s8s")
NO_DIGEST: Final = bytes(8)
NO_PARENT: Final = bytes(8)
# The highest bit of a time is a flag. Of a start: an agent, or another span that says it is around
# calls. Of an end: no call of its own, as an earlier import found.
FLAG: Final = 1 << 63
_TIME: Final = FLAG - 1
# The lowest bit of an end, which no clock is fine enough for: a span that may be around calls.
MAYBE: Final = 1
_END_AT: Final = 16 + 8 + 8 + 8
# What times of the same call differ by: clocks are read one after the other.
_SLACK_NS: Final = 5_000_000
# A log of a finished stream comes after it, and two traces of one response may only overlap.
_LONG_SLACK_NS: Final = 1_000_000_000
# Each scope is compared with all the others, and no program traces a call this often.
_MOST_SCOPES: Final = 20

# A span in its trace.
Name = tuple[bytes, bytes]


class SpanKey(NamedTuple):
    """The identity of a span of a call. Digests of what is missing are zeros."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int
    end: int
    scope: bytes
    response: bytes  # of the provider and the ID of its response
    counts: bytes  # of the service and the counts of tokens
    is_agent: bool = False
    is_left_out: bool = False
    may_be_around: bool = False

    @property
    def name(self) -> Name:
        return self.trace_id, self.span_id


def digest(text: str) -> bytes:
    """Return eight bytes that stand for a text."""
    return blake2b(text.encode(), digest_size=8).digest()


def read_keys(packed: bytes) -> list[SpanKey]:
    return [
        SpanKey(
            *(trace, span, parent, start & _TIME & ~MAYBE, end & _TIME & ~MAYBE),
            *(scope, response, counts),
            is_agent=start >= FLAG,
            is_left_out=end >= FLAG,
            may_be_around=bool(end & MAYBE),
        )
        for trace, span, parent, start, end, scope, response, counts in KEY.iter_unpack(packed)
    ]


def leave_out(packed: bytes, places: Iterable[int]) -> bytes:
    """Return keys of which those at some places are marked as no calls of their own."""
    marked = bytearray(packed)
    for place in places:
        marked[place * KEY.size + _END_AT] |= 0x80
    return bytes(marked)


def find_counted(keys: Sequence[SpanKey], links: bytes, carried: int = 0) -> set[int]:
    """Return the positions of the keys whose records count, one for each call.

    The first `carried` keys are of an earlier import: they never count again, and neither do
    repeats, wrappers and doubles of those that it counted, nor calls in them.
    """
    first = {key.name: at for at, key in reversed(list(enumerate(keys)))}
    family = _Family([keys[at] for at in first.values()], links)
    wrappers = family.find_wrappers()
    before = {at for at in first.values() if at < carried and not keys[at].is_left_out}
    if before:
        # The previous release marked none of those that do not count.
        around = {(keys[at].trace_id, keys[at].parent_id) for at in before}
        wrappers |= family.find_below({keys[at].name for at in before} - around)
    left = sorted(
        before | {at for name, at in first.items() if at >= carried and name not in wrappers}
    )
    for of in (_response_of, _counts_of):
        # Drop calls that another of a few scopes traced as well.
        groups: Mapping[bytes, list[int]] = defaultdict(list)
        for at in left:
            if of(keys[at]) != NO_DIGEST:
                groups[of(keys[at])].append(at)
        dropped: set[int] = set()
        for group in groups.values():
            if 1 < len({keys[at].scope for at in group}) <= _MOST_SCOPES:
                dropped |= _find_doubles(keys, group, of is _response_of, carried)
        left = [at for at in left if at not in dropped]
    return {at for at in left if at >= carried}


class _Family:
    """Which spans are around others, as far as their IDs say.

    The spans between a wrapper and its calls may come later, or never. A call whose parents are not
    all there is below the span that its trace begins with, and below each agent's span of its trace
    that is around it in time.
    """

    def __init__(self, keys: Sequence[SpanKey], links: bytes) -> None:
        self._keys = keys
        self._parents = {(trace, span): parent for trace, span, parent in LINK.iter_unpack(links)}
        self._parents |= {key.name: key.parent_id for key in keys}
        self._orphans: dict[bytes, list[SpanKey]] = defaultdict(list)
        self._agents: dict[bytes, list[SpanKey]] = defaultdict(list)
        tops: dict[Name, Name] = {}
        for key in keys:
            if self._climb(key.name, tops) not in self._parents:
                self._orphans[key.trace_id].append(key)
            if key.is_agent:
                self._agents[key.trace_id].append(key)
        roots: dict[bytes, list[Name]] = defaultdict(list)
        for name, parent in self._parents.items():
            if parent == NO_PARENT and name[0] in self._orphans:
                roots[name[0]].append(name)
        # A trace that begins twice has lost a span above both.
        self._roots = {trace: names[0] for trace, names in roots.items() if len(names) == 1}

    def _climb(self, name: Name, tops: dict[Name, Name]) -> Name:
        """Return the last span above another whose ID is known: its parent is missing or none."""
        passed = []
        while name not in tops:
            tops[name] = name  # a ring ends where it began
            passed.append(name)
            parent = self._parents.get(name)
            if parent is None or parent == NO_PARENT:
                break
            name = name[0], parent
        top = tops[name]
        tops.update(dict.fromkeys(passed, top))
        return top

    def find_wrappers(self) -> set[Name]:
        """Return the spans that have a call among their descendants."""
        found: set[Name] = set()
        for key in self._keys:
            own, name = key.name, (key.trace_id, key.parent_id)
            while name not in found and name in self._parents and name != own:
                found.add(name)
                name = (key.trace_id, self._parents[name])
        found.update(self._roots.values())
        for trace in self._agents.keys() & self._orphans.keys():
            agents = self._agents[trace]
            calls = sorted(
                (each.start, each.end) for each in self._orphans[trace] if not each.is_agent
            )
            starts = [start for start, _ in calls]
            # The earliest end of the calls from each one on.
            ends = [*accumulate((end for _, end in reversed(calls)), min)][::-1]
            for agent in agents:
                at = bisect_left(starts, agent.start - _SLACK_NS)
                if at < len(ends) and ends[at] <= agent.end + _SLACK_NS:
                    found.add(agent.name)
        return found

    def find_below(self, above: set[Name]) -> set[Name]:
        """Return the spans below some others."""
        is_below = dict.fromkeys(above, True)
        for key in self._keys:
            passed, name = [], key.name
            while name not in is_below:
                is_below[name] = False  # a ring ends where it began
                passed.append(name)
                parent = self._parents.get(name)
                if parent is None:
                    break
                name = name[0], parent
            if is_below[name]:
                is_below.update(dict.fromkeys(passed, True))
        found = {name for name, is_it in is_below.items() if is_it} - above
        for trace, orphans in self._orphans.items():
            if self._roots.get(trace) in above:
                found.update(each.name for each in orphans)
            agents = sorted(
                (each.start, each.end) for each in self._agents.get(trace, ()) if each.name in above
            )
            starts = [start for start, _ in agents]
            ends = [*accumulate((end for _, end in agents), max)]
            for each in orphans:
                at = bisect_left(starts, each.start + _SLACK_NS + 1)
                if at and not each.is_agent and each.end <= ends[at - 1] + _SLACK_NS:
                    found.add(each.name)
        return found - above


def _response_of(key: SpanKey) -> bytes:
    return key.response


def _counts_of(key: SpanKey) -> bytes:
    return key.counts


def _find_doubles(
    keys: Sequence[SpanKey], group: Sequence[int], is_response: bool, carried: int
) -> set[int]:
    """Return one of each two spans of different scopes that are the same call."""
    scopes: dict[bytes, list[int]] = defaultdict(list)
    for at in sorted(group, key=lambda at: (keys[at].start, at)):
        scopes[keys[at].scope].append(at)
    dropped: set[int] = set()
    kept, *others = (scopes[scope] for scope in sorted(scopes))
    for other in others:
        pairs = _pair(keys, kept, other, is_response)
        doubles = {_less_known(keys, pair, carried) for pair in pairs}
        dropped |= doubles
        kept = sorted({*kept, *other} - doubles, key=lambda at: (keys[at].start, at))
    return dropped


def _pair(
    keys: Sequence[SpanKey], left: Sequence[int], right: Sequence[int], is_response: bool
) -> list[tuple[int, int]]:
    """Pair calls of two scopes in order of time."""
    pairs, mine, theirs = [], 0, 0
    while mine < len(left) and theirs < len(right):
        one, other = keys[left[mine]], keys[right[theirs]]
        if _is_same(one, other, is_response):
            pairs.append((left[mine], right[theirs]))
            mine, theirs = mine + 1, theirs + 1
        elif one.end <= other.end:
            mine += 1
        else:
            theirs += 1
    return pairs


def _is_same(one: SpanKey, other: SpanKey, is_response: bool) -> bool:
    if not is_response and NO_DIGEST not in (one.response, other.response):
        return False  # the providers' IDs differ
    if is_response or _is_log(one) or _is_log(other):
        return one.start <= other.end + _LONG_SLACK_NS and other.start <= one.end + _LONG_SLACK_NS
    return _contains(one, other) or _contains(other, one)


def _is_log(key: SpanKey) -> bool:
    """Check for a log of a call that has ended, which some instrumentations write as a span."""
    return key.start == key.end


def _contains(outer: SpanKey, inner: SpanKey) -> bool:
    return outer.start <= inner.start + _SLACK_NS and inner.end <= outer.end + _SLACK_NS


def _less_known(keys: Sequence[SpanKey], pair: tuple[int, int], carried: int) -> int:
    """Return the span to drop: the one not counted yet, a log, without an ID, or the outer one."""
    if (pair[0] < carried) != (pair[1] < carried):
        return max(pair)

    def rank(at: int) -> tuple[bool, bool, int, int, int]:
        key = keys[at]
        return (not _is_log(key), key.response != NO_DIGEST, key.start, -key.end, at)

    return min(pair, key=rank)
