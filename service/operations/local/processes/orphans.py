"""Processes whose parent, a supervised program, was killed.

On Linux they become children of the supervisor. So there is no doubt whose they are, and while
they are not reaped, their numbers cannot go to strangers. Elsewhere there are none to be found.
"""

import contextlib
import ctypes
import os
import sys

import psutil

END_SECONDS = 5.0

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of whatever a killed program leaves behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_orphans(name: str | None = None, spared: frozenset[int] = frozenset()) -> None:
    """Kill the orphans of one name, which no running program may have, or all but the spared."""
    orphans = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):  # It just ended.
            if child.pid not in spared and name in (None, child.name()):
                child.kill()
                orphans.append(child)
    psutil.wait_procs(orphans, timeout=END_SECONDS)


def reap_orphans(own: frozenset[int]) -> None:
    """Bury orphans that ended; the ends of our `own` children are left for their keepers."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in own:
                return
            os.waitpid(ended.si_pid, 0)
