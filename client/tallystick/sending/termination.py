"""SIGTERM: without a handler it ends a process at once, and the queue with it.

Process managers, containers and `multiprocessing.Pool` all end processes this way.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import Any, Callable


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
