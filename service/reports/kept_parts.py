"""An in-memory cache of rendered reports. A published report does not change."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Part = TypeVar("Part")


class KeptParts(Generic[Part]):
    """A least-recently-used cache of at most `most` parts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: OrderedDict[Hashable, Part] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Part]) -> Part:
        """Return the cached part, or make and cache it."""
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        part = make()  # two threads may both make it, with the same result
        with self._lock:
            self._parts[key] = part
            while len(self._parts) > self._most:
                self._parts.popitem(last=False)
        return part
