"""The beginnings and ends of processes: those that are forked off, and those that SIGTERM ends.

A forked process starts over, with a queue and a thread of its own. Nothing registered for that can
be taken back; what is called looks up for itself what it acts on, so that nothing is kept alive by
it. SIGTERM without a handler would end a process at once, and the queue with it. Process managers,
containers and `multiprocessing.Pool` all end processes this way.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from typing import Any, Callable


class Forks:
    """Calls `renew` in every process forked off, and `finish` at the end of a worker process.

    `pause` is called when a server stops within a process that may go on.

    Worker processes end without running what `atexit` has; their libraries have hooks of their own.
    Both kinds of program are common: that which is turned on before it forks, and that whose
    workers are, each for itself.
    """

    def __init__(
        self, renew: Callable[[], None], finish: Callable[[], None], pause: Callable[[], None]
    ) -> None:
        self._finish = finish
        self._pause = pause
        self._steps = {
            "multiprocessing.util": self._hook_multiprocessing,
            "celery.signals": self._hook_celery,
            "uvicorn.server": self._hook_uvicorn,
        }
        self._hook_libraries()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._hook_libraries, after_in_child=renew)

    def _hook_libraries(self) -> None:
        """Register with process libraries that are already imported, once each."""
        for name in [name for name in self._steps if name in sys.modules]:
            try:
                self._steps.pop(name)(sys.modules[name])
            except Exception:  # noqa: S110 - then its workers' last records are lost
                pass

    def _hook_multiprocessing(self, util: Any) -> None:
        """What is to be done at the end is forgotten in a child, unless it is said there again."""
        util.register_after_fork(
            self, lambda forks: util.Finalize(None, forks._finish, exitpriority=0)
        )
        if sys.modules["multiprocessing.process"].parent_process() is not None:
            util.Finalize(None, self._finish, exitpriority=0)

    def _hook_celery(self, signals: Any) -> None:
        signals.worker_process_shutdown.connect(lambda **_: self._finish(), weak=False)

    def _hook_uvicorn(self, server: Any) -> None:
        """It handles SIGTERM itself, and once it has stopped, ends the process by that signal."""
        original, pause = server.Server.shutdown, self._pause

        @functools.wraps(original)
        async def shutdown(*arguments: Any, **named: Any) -> Any:
            try:
                return await original(*arguments, **named)
            finally:
                pause()

        server.Server.shutdown = shutdown


class Termination:
    """Sends the queue before SIGTERM ends the process, if nothing else handles that signal."""

    def __init__(self, finish: Callable[[], None]) -> None:
        self._finish = finish

    def install(self) -> None:
        """Handle SIGTERM; only the main thread may, and a handler of the program's stays."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handle)

    def remove(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _handle(self, number: int, frame: Any) -> None:
        try:
            self._finish()
        finally:  # the process ends as it would without us, with the same status
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
