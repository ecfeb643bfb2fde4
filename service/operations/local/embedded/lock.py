"""Ownership of a data folder: the process that holds its lock."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

import psutil

from service.operations.local.embedded.errors import AlreadyRunningError

LOCK_NAME = "lock"
# A killed owner's supervisor holds the lock until its servers are down.
WINDING_DOWN_SECONDS = 30.0
_POLL_SECONDS = 0.05
# A start time shifts when the clock is set; process IDs aren't reused this soon.
_SAME_START_SECONDS = 60.0


class FolderLock:
    """An exclusive lock on a data folder; the kernel releases it when its holders exit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._descriptor

    def acquire(self) -> None:
        """Acquire the lock; raise `AlreadyRunningError` immediately if the owner is alive."""
        deadline = time.monotonic() + WINDING_DOWN_SECONDS
        while not self._try():
            owner = _read_owner(self._descriptor)
            if owner is not None or time.monotonic() > deadline:
                os.close(self._descriptor)
                raise AlreadyRunningError(self._folder, owner)
            time.sleep(_POLL_SECONDS)
        mark = f"{os.getpid()} {psutil.Process().create_time()}\n".encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, mark, 0)

    def release(self) -> None:
        """Release the lock, for forked copies of this process as well."""
        os.ftruncate(self._descriptor, 0)
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def find_owner(folder: Path) -> int | None:
    """Return the ID of the live process that owns the folder, if any."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _read_owner(descriptor)
    finally:
        os.close(descriptor)


def _read_owner(descriptor: int) -> int | None:
    """Return the process ID in the lock file, unless the ID was reused by a later process."""
    words = os.pread(descriptor, 100, 0).split()
    if len(words) != 2:
        return None
    with contextlib.suppress(psutil.Error, ValueError):
        process = psutil.Process(int(words[0]))
        same = abs(process.create_time() - float(words[1])) < _SAME_START_SECONDS
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process.pid
    return None
