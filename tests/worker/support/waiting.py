"""Wait for other processes, and end them."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any, Final

import psutil

# A slow or busy machine takes many times as long as a test expects, and what never comes fails all
# the same.
LEAST_SECONDS: Final = 60.0


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(condition: Callable[[], Any], seconds: float) -> Any:
    """What the condition returns once it is true; raises after so many seconds, at least 60."""
    began, seconds = time.monotonic(), max(seconds, LEAST_SECONDS)
    while not (found := condition()):
        waited = time.monotonic() - began
        if waited > seconds:
            raise AssertionError(f"still not so after {seconds} s")
        # To ask takes milliseconds of two processes; what takes long need not be seen at once.
        time.sleep(0.02 if waited < 0.5 else 0.05)
    return found


def wait_until_ended(pid: int) -> None:
    """Until the process runs no more; a zombie that nobody waits for does not run."""

    def has_ended() -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended, 20)
