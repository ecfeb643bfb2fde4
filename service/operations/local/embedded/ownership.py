"""Who uses a data folder: the process that holds its lock, and servers that were left running."""

import contextlib
import fcntl
import os
import time
from pathlib import Path
from pwd import struct_passwd
from signal import SIGINT

import psutil

from service.operations.local.embedded.errors import AlreadyRunningError

LOCK_NAME = "lock"
# A killed owner's supervisor holds the lock until its servers are down.
WINDING_DOWN_SECONDS = 30.0
STOP_SECONDS = 15.0
_POLL_SECONDS = 0.05
_SERVERS = frozenset({"postgres", "initdb", "valkey-server"})


def lock_folder(folder: Path) -> int:
    """Return the descriptor of the folder's lock, which ends with the last process that has it.

    Raises `AlreadyRunningError` immediately if the owner is alive.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + WINDING_DOWN_SECONDS
    while not _try(descriptor, fcntl.LOCK_EX):
        owner = _read_owner(descriptor)
        if owner is not None or time.monotonic() > deadline:
            os.close(descriptor)
            raise AlreadyRunningError(folder, owner)
        time.sleep(_POLL_SECONDS)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def unlock_folder(descriptor: int) -> None:
    """Release the lock, for forked copies of this process as well."""
    os.ftruncate(descriptor, 0)
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def find_owner(folder: Path) -> int | None:
    """Return the ID of the live process that owns the folder, if any."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return None if _try(descriptor, fcntl.LOCK_SH) else _read_owner(descriptor)
    finally:
        os.close(descriptor)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read_owner(descriptor: int) -> int | None:
    """Return the process that has written its ID to a lock that is held, while it is alive."""
    words = os.pread(descriptor, 100, 0).split()
    with contextlib.suppress(psutil.Error, ValueError, IndexError):
        process = psutil.Process(int(words[0]))
        # A killed owner may have had the ID that we have now, as in a container.
        if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            return process.pid
    return None


def stop_leftovers(folder: Path, user: struct_passwd | None) -> None:
    """Stop servers of the folder that outlived their supervisor; use SIGKILL if they are slow.

    PID files aren't trusted, because process IDs are reused: a leftover is a process of the
    servers' user that runs one of their programs with a folder in this one as an argument or, like
    PostgreSQL's sessions, as its working directory. psutil checks its start time before a signal.
    """
    user_id, leftovers = user.pw_uid if user else os.geteuid(), []
    for process in psutil.process_iter(["cmdline", "cwd", "name", "uids"]):
        found = process.info
        if found["name"] not in _SERVERS or not found["uids"] or found["uids"].real != user_id:
            continue
        if folder in (
            Path(word).parent for word in (*(found["cmdline"] or ()), found["cwd"] or "")
        ):
            leftovers.append(process)
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(SIGINT)  # for PostgreSQL, the "fast" shutdown
    _, stubborn = psutil.wait_procs(leftovers, timeout=STOP_SECONDS)
    for process in stubborn:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(stubborn, timeout=STOP_SECONDS)
