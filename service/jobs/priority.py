"""Give way to the web process and the database: audits can wait."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_NICENESS: Final = 10
# A sixth of the others' share. With a tenth, as for a niceness of 10, audits waited too
# long beside programs that keep all processors busy.
_SESSION_NICENESS: Final = 8
_SESSION: Final = Path("/proc/self/autogroup")
# The kernel accepts one change in a tenth of a second, from all who aren't root together.
_TRIES: Final = 20
_PAUSE_SECONDS: Final = 0.11


def give_way() -> None:
    """Lower the priority of this process, and of those that it starts.

    Linux first shares the processors between sessions, where that is on, and then between the
    processes of a session. So a worker that has a session of its own lowers its priority too.
    """
    os.nice(_NICENESS)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):  # such as a kernel without it
            for _ in range(_TRIES):
                with suppress(BlockingIOError):
                    _SESSION.write_text(str(_SESSION_NICENESS))
                    return
                time.sleep(_PAUSE_SECONDS)
