"""Finds snapshots of one message and calls that were logged twice, so that each counts once.

Both compare with recent calls only, in windows of a fixed size, so that memory stays flat.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple

from detectors.formats.adapters.calls import Call, encode_call

WINDOW: Final = 500_000  # calls; a duplicate row is found at least this far back
_OPEN_MESSAGES: Final = 1_000

DUPLICATE_ROW: Final = "calls logged more than once"
SNAPSHOT: Final = "partial snapshots of a message"


class DuplicateRows:
    """Remembers a hash of each recent call, in two sets that take turns."""

    def __init__(self, window: int = WINDOW) -> None:
        self._window = window
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def is_new(self, key: bytes | str) -> bool:
        """Check whether the key is new within the window, and remember it."""
        number = hash(key)
        if number in self._recent or number in self._older:
            return False
        self._recent.add(number)
        if len(self._recent) >= self._window:
            self._older, self._recent = self._recent, set()
        return True


class Snapshots:
    """Joins the snapshots of a message: the highest counts with the earliest time."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Call] = OrderedDict()

    def add(self, call: Call) -> bool:
        """Add a snapshot; return whether it is the first of an open message."""
        key = call.request_id or ""
        earlier = self._open.get(key)
        if earlier is None:
            self._open[key] = call
            return True
        fullest = max(earlier, call, key=lambda snapshot: snapshot.usage.completion_tokens)
        fullest.ts = min(earlier.ts, call.ts)
        self._open[key] = fullest
        return False

    def close(self, *, is_end: bool = False) -> Iterator[Call]:
        """Yield the calls of messages that are complete."""
        while self._open and (is_end or len(self._open) > _OPEN_MESSAGES):
            yield self._open.popitem(last=False)[1]


class Taken(NamedTuple):
    """A call, and the line that it is written as."""

    call: Call
    line: bytes


class Once:
    """Takes the calls of some logs and yields each once; counts the others in `dropped`."""

    def __init__(self, dropped: Counter[str]) -> None:
        self._dropped = dropped
        self._rows = DuplicateRows()
        self._messages = DuplicateRows()
        self._snapshots = Snapshots()

    def add(self, call: Call, *, is_snapshot: bool) -> Iterator[Taken]:
        """Yield the calls that are complete with this one."""
        if not is_snapshot:
            yield from self._take(call)
            return
        if not self._snapshots.add(call):
            self._dropped[SNAPSHOT] += 1
        for closed in self._snapshots.close():
            yield from self._take_message(closed)

    def close(self) -> Iterator[Taken]:
        """Yield the calls that are complete at the end of a log."""
        for call in self._snapshots.close(is_end=True):
            yield from self._take_message(call)

    def _take(self, call: Call) -> Iterator[Taken]:
        line = encode_call(call)
        if call.request_id is not None and not self._rows.is_new(line):
            self._dropped[DUPLICATE_ROW] += 1
            return
        yield Taken(call, line)

    def _take_message(self, call: Call) -> Iterator[Taken]:
        """Yield a message once: a resumed session repeats the messages of the earlier session."""
        if self._messages.is_new(call.request_id or ""):
            yield from self._take(call)
        else:
            self._dropped[DUPLICATE_ROW] += 1
