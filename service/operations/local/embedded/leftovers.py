"""Stop servers of a data folder that outlived their supervisor.

PID files aren't trusted, because process IDs are reused: a leftover is a process of the servers'
user that runs the server's program with this folder as an argument or, like PostgreSQL's sessions,
as its working directory.
"""

import contextlib
import os
from pathlib import Path
from signal import Signals

import psutil

STOP_SECONDS = 15.0


def stop_leftovers(programs: frozenset[str], folder: Path, user: int, signal: Signals) -> None:
    """Stop processes that still run on a folder; use SIGKILL if they take too long.

    psutil checks the start time before it sends a signal, so a process with a reused ID is safe.
    """
    leftovers = [
        process
        for process in psutil.process_iter(["cmdline", "cwd", "name", "uids"])
        if _runs_on(process, programs, folder, user)
    ]
    for process in leftovers:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal)
    _, stubborn = psutil.wait_procs(leftovers, timeout=STOP_SECONDS)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=STOP_SECONDS)


def _runs_on(process: psutil.Process, programs: frozenset[str], folder: Path, user: int) -> bool:
    command = process.info["cmdline"] or [""]
    owner = process.info["uids"]
    if owner is None or owner.real != user:
        return False
    if os.path.basename(command[0]) in programs and str(folder) in command:
        return True
    return process.info["name"] in programs and process.info["cwd"] == str(folder)
