"""Spread connections over the processes of a web server.

A new connection wakes all processes, and the first one gets it. The clients that connect one after
the other can so be in a single process, whose threads share one processor, while another process is
idle. So a process waits a moment before it accepts, if one with fewer connections has time for it.
"""

import mmap
import time
from typing import Any, Final

# How many processes there may be: the number of a process is counted up at each start.
_PLACES: Final = 64
_ABSENT: Final = (1 << 31) - 1
# Requests that run in a process which has time for another connection.
_FEW: Final = 1
# Long enough for an idle process to wake up and accept.
_STEP_BACK_SECONDS: Final = 0.001


class Balance:
    """How many connections each process has, in memory that all of them inherit."""

    def __init__(self) -> None:
        self.share()

    def share(self) -> None:
        """Forget all processes, before those that will share it are forked."""
        self._counts = memoryview(mmap.mmap(-1, 4 * _PLACES)).cast("i")
        for place in range(_PLACES):
            self._counts[place] = _ABSENT

    def publish(self, age: int, connections: int, running: int) -> None:
        """Say how many connections this process has, and how many requests run."""
        self._counts[age % _PLACES] = connections if running <= _FEW else _ABSENT

    def withdraw(self, age: int) -> None:
        """Forget a process, which accepts no more connections."""
        self._counts[age % _PLACES] = _ABSENT

    def give_way(self, connections: int) -> None:
        """Let a process with fewer connections accept the next one, if there is one."""
        if min(self._counts) < connections:
            time.sleep(_STEP_BACK_SECONDS)


balance: Final = Balance()


def forget_process(_server: Any, worker: Any) -> None:
    """Do what gunicorn's master does when a process has ended, whatever ended it."""
    balance.withdraw(worker.age)
