"""Processes whose parent, a supervised program, was killed.

On Linux they become children of the supervisor, so they can be identified safely, and their process
IDs aren't reused until they are reaped. Other systems have no such adoption.
"""

import contextlib
import ctypes
import os
import sys

import psutil

END_SECONDS = 5.0

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of processes that a killed program leaves behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans(name: str | None = None, spared: frozenset[int] = frozenset()) -> None:
    """Kill the orphans with this name, or all of them, except those in `spared`."""
    orphans = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # It has just exited.
            if child.pid not in spared and name in (None, child.name()):
                child.kill()
                orphans.append(child)
    psutil.wait_procs(orphans, timeout=END_SECONDS)


def reap_orphans(own: frozenset[int]) -> None:
    """Reap orphans that exited; leave our `own` children to their `Child` objects."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)
