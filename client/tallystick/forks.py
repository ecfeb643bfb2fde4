"""Processes that are forked off: each starts anew, with a queue and a thread of its own.

Nothing registered here can be taken back; what is called looks up for itself what it acts on, so
that nothing is kept alive by it.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable

# Libraries that fork processes of their own and end them without running what `atexit` has.
_FORKING = ("multiprocessing.util", "billiard.util")


class Forks:
    """Calls `renew` in every process forked off, and `finish` at the end of a worker process."""

    def __init__(self, renew: Callable[[], None], finish: Callable[[], None]) -> None:
        self._finish = finish
        self._told: set[str] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_child=renew)

    def _before(self) -> None:
        """Such a library forgets in the child what it was told before, except through this."""
        for name in _FORKING:
            util = sys.modules.get(name)
            if util is None or name in self._told:
                continue
            try:
                util.register_after_fork(self, lambda forks, util=util: forks._await_end(util))
                self._told.add(name)
            except Exception:  # noqa: S110 - then its workers' last records are lost
                pass

    def _await_end(self, util: Any) -> None:
        util.Finalize(None, self._finish, exitpriority=0)
