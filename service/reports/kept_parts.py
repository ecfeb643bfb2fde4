"""What was printed last, kept in memory: a report that is published does not change."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Part = TypeVar("Part")


class KeptParts(Generic[Part]):
    """The parts that were asked for last, no more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: OrderedDict[Hashable, Part] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Part]) -> Part:
        """What is kept under the key, or else what `make` returns, which is kept from then on."""
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        part = make()  # by two threads at once, if need be: they make the same
        with self._lock:
            self._parts[key] = part
            while len(self._parts) > self._most:
                self._parts.popitem(last=False)
        return part
