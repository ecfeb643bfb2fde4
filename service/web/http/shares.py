"""Give threads shares of something bounded, in the order in which they ask.

A semaphore of `threading` can let a newcomer overtake those who wait, who then wait for any time.
"""

from collections import deque
from threading import Lock


class Shares:
    """Shares of a total, such as slots or bytes. One larger than the total has to be alone."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._taken = 0
        self._lock = Lock()
        self._queue: deque[tuple[int, Lock]] = deque()  # each lock is released at its turn

    @property
    def taken(self) -> int:
        return self._taken

    def take(self, share: int, seconds: float = 0.0) -> bool:
        """Take a share, and return whether there was one in this time."""
        with self._lock:
            if not self._queue and self._has_room(share):
                self._taken += share
                return True
            if seconds <= 0:
                return False
            turn = Lock()
            turn.acquire()
            self._queue.append((share, turn))
        if turn.acquire(timeout=seconds):
            return True
        with self._lock:
            if (share, turn) not in self._queue:  # the share came just now
                return True
            self._queue.remove((share, turn))
            self._hand_out()  # there may be room for those behind it
            return False

    def give_back(self, share: int) -> None:
        with self._lock:
            self._taken -= share
            self._hand_out()

    def _hand_out(self) -> None:
        while self._queue and self._has_room(self._queue[0][0]):
            share, turn = self._queue.popleft()
            self._taken += share
            turn.release()

    def _has_room(self, share: int) -> bool:
        return not self._taken or self._taken + share <= self._total
