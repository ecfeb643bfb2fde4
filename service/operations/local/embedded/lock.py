"""Who owns a data folder: the process that holds its lock, and nobody once that is gone."""

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
# A start time moves when the machine's clock is set; numbers are not reused this soon.
_SAME_START_SECONDS = 60.0


class FolderLock:
    """An exclusive lock on a data folder that the kernel gives back when its holders are gone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def fileno(self) -> int:
        return self._descriptor

    def acquire(self) -> None:
        """Take the lock; raises `AlreadyRunningError` at once while the owner lives."""
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
        """Give the lock back, also on behalf of forked copies of this process."""
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
    """The living process that owns the folder, if there is one."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _read_owner(descriptor)
    finally:
        os.close(descriptor)


def _read_owner(descriptor: int) -> int | None:
    """The process named in the lock file, told from a later one of its number by its start."""
    words = os.pread(descriptor, 100, 0).split()
    if len(words) != 2:
        return None
    with contextlib.suppress(psutil.Error, ValueError):
        process = psutil.Process(int(words[0]))
        same = abs(process.create_time() - float(words[1])) < _SAME_START_SECONDS
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process.pid
    return None
