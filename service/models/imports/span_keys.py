"""Which spans are the same call: repeats, wrappers, and calls that two instrumentations trace.

Each span of a call has a key of a fixed size, stored beside its record. Closing an import compares
the keys of all its spans; the records themselves are not read again.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from struct import Struct
from typing import Final, NamedTuple

# Trace, span, parent, start, end, scope, response, counts.
KEY: Final = Struct(">16s8s8sQQ8s8s8s")
# Trace, span, parent: of a span that is no call, but may be between two calls.
LINK: Final = Struct(">16s8s8s")
NO_DIGEST: Final = bytes(8)
# What times of the same call differ by: clocks are read one after the other.
_SLACK_NS: Final = 5_000_000
# A log of a finished stream comes after it, and two traces of one response may only overlap.
_LONG_SLACK_NS: Final = 1_000_000_000
# Each scope is compared with all the others, and no program traces a call this often.
_MOST_SCOPES: Final = 20


class Key(NamedTuple):
    """The identity of a span of a call. Digests of what is missing are zeros."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    start: int
    end: int
    scope: bytes
    response: bytes  # of the provider and the ID of its response
    counts: bytes  # of the service and the counts of tokens


def digest(text: str) -> bytes:
    """Return eight bytes that stand for a text."""
    return blake2b(text.encode(), digest_size=8).digest()


def read_keys(packed: bytes) -> list[Key]:
    return [Key(*fields) for fields in KEY.iter_unpack(packed)]


def find_counted(keys: Sequence[Key], links: bytes, carried: int = 0) -> set[int]:
    """Return the positions of the keys whose records count, one for each call.

    The first `carried` keys were counted by an earlier import: they never count again, and neither
    do repeats, wrappers and doubles of theirs.
    """
    first = {(key.trace_id, key.span_id): at for at, key in reversed(list(enumerate(keys)))}
    wrappers = _find_wrappers([keys[at] for at in first.values()], links)
    left = sorted(at for name, at in first.items() if at < carried or name not in wrappers)
    for of in (_response_of, _counts_of):
        left = _drop_doubles(keys, left, of, carried)
    return {at for at in left if at >= carried}


def _find_wrappers(keys: Sequence[Key], links: bytes) -> set[tuple[bytes, bytes]]:
    """Return the spans that have a call among their descendants."""
    parents = {(trace, span): parent for trace, span, parent in LINK.iter_unpack(links)}
    parents |= {(key.trace_id, key.span_id): key.parent_id for key in keys}
    found: set[tuple[bytes, bytes]] = set()
    for key in keys:
        own, name = (key.trace_id, key.span_id), (key.trace_id, key.parent_id)
        while name not in found and name in parents and name != own:
            found.add(name)
            name = (key.trace_id, parents[name])
    return found


def _response_of(key: Key) -> bytes:
    return key.response


def _counts_of(key: Key) -> bytes:
    return key.counts


def _drop_doubles(
    keys: Sequence[Key], left: Sequence[int], of: Callable[[Key], bytes], carried: int
) -> list[int]:
    """Drop calls that another of a few scopes traced as well."""
    groups: Mapping[bytes, list[int]] = defaultdict(list)
    for at in left:
        if of(keys[at]) != NO_DIGEST:
            groups[of(keys[at])].append(at)
    dropped: set[int] = set()
    for group in groups.values():
        if 1 < len({keys[at].scope for at in group}) <= _MOST_SCOPES:
            dropped |= _find_doubles(keys, group, of is _response_of, carried)
    return [at for at in left if at not in dropped]


def _find_doubles(
    keys: Sequence[Key], group: Sequence[int], is_response: bool, carried: int
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
    keys: Sequence[Key], left: Sequence[int], right: Sequence[int], is_response: bool
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


def _is_same(one: Key, other: Key, is_response: bool) -> bool:
    if not is_response and NO_DIGEST not in (one.response, other.response):
        return False  # the providers' IDs differ
    if is_response or _is_log(one) or _is_log(other):
        return one.start <= other.end + _LONG_SLACK_NS and other.start <= one.end + _LONG_SLACK_NS
    return _contains(one, other) or _contains(other, one)


def _is_log(key: Key) -> bool:
    """Check for a log of a call that has ended, which some instrumentations write as a span."""
    return key.start == key.end


def _contains(outer: Key, inner: Key) -> bool:
    return outer.start <= inner.start + _SLACK_NS and inner.end <= outer.end + _SLACK_NS


def _less_known(keys: Sequence[Key], pair: tuple[int, int], carried: int) -> int:
    """Return the span to drop: the one not counted yet, a log, without an ID, or the outer one."""
    if (pair[0] < carried) != (pair[1] < carried):
        return max(pair)

    def rank(at: int) -> tuple[bool, bool, int, int, int]:
        key = keys[at]
        return (not _is_log(key), key.response != NO_DIGEST, key.start, -key.end, at)

    return min(pair, key=rank)
