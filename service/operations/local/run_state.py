"""Who owns the data folder of `tallystick up`, and how other commands reach what runs on it."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from service.core.durable_files import write_private
from service.operations.local.handle import ServersError

STATE_NAME = "state.json"
LOCK_NAME = "lock"
# A killed owner's supervisor holds the lock until its servers are down.
WINDING_DOWN_SECONDS = 30.0


@contextmanager
def lock_folder(folder: Path) -> Iterator[int]:
    """Hold the folder's lock, a descriptor, which ends with the last process that has it.

    Raises `ServersError` immediately if its owner is alive.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + WINDING_DOWN_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            owner = _read_owner(descriptor)
            if owner is not None or time.monotonic() > deadline:
                os.close(descriptor)
                who = f" (process {owner})" if owner else ""
                raise ServersError(f"tallystick is already running in {folder}{who}") from None
        time.sleep(0.05)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    yield descriptor
    os.ftruncate(descriptor, 0)
    fcntl.flock(descriptor, fcntl.LOCK_UN)  # for forked copies of this process as well
    os.close(descriptor)


def find_owner(folder: Path) -> int | None:
    """Return the ID of the live process that owns the folder, if any."""
    with suppress(FileNotFoundError, NotADirectoryError), (folder / LOCK_NAME).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read_owner(lock.fileno())
    return None


def _read_owner(descriptor: int) -> int | None:
    """Return the process that has written its ID to a lock that is held, while it is alive."""
    words = os.pread(descriptor, 100, 0).split()
    with suppress(psutil.Error, ValueError, IndexError):
        process = psutil.Process(int(words[0]))
        # A killed owner may have had the ID that we have now, as in a container.
        if process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
            return process.pid
    return None


def save_state(data_dir: Path, settings: Mapping[str, str]) -> None:
    """Save the settings of this process, for as long as it is ready."""
    write_private(data_dir / STATE_NAME, msgspec.json.encode(settings))


def find_state(data_dir: Path) -> dict[str, str] | None:
    """Return the settings of the `up` running on the folder, if it is ready."""
    if find_owner(data_dir) is None:
        return None
    with suppress(FileNotFoundError):
        return msgspec.json.decode((data_dir / STATE_NAME).read_bytes(), type=dict[str, str])
    return None
