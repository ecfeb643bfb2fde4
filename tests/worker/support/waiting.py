"""Wait for other processes, and end them."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def wait_until(condition: Callable[[], Any], seconds: float) -> Any:
    """What the condition returns once it is true; raises after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still not so after {seconds} s")
        time.sleep(0.02)
    return found


def wait_until_ended(pid: int) -> None:
    """Until the process runs no more; a zombie that nobody waits for does not run."""

    def has_ended() -> bool:
        try:
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    wait_until(has_ended, 20)
