"""Finds snapshots of one message and calls that were logged twice.

Both compare with recent calls only, in windows of a fixed size, so that memory stays flat.
"""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from detectors.scrub.calls import Call

WINDOW: Final = 500_000  # calls; a duplicate row is found at least this far back
_OPEN_MESSAGES: Final = 1_000


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
