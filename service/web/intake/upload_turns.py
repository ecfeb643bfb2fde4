"""Let one file per account be checked at a time, on all processes of a web server.

The lock is a byte of an unnamed file that the server's processes inherit: the kernel releases it
however a process ends, and nothing is left behind. Why is in
docs/decisions/security/20-hostile-uploads.md.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from tempfile import TemporaryFile
from threading import Lock
from typing import Final

from service.errors import RateLimitedError

WAIT_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.01
_RETRY_SECONDS: Final = 5
_BUSY: Final = (
    "We're still checking another file of yours. Try again in a few seconds; no credit was used."
)


class UploadTurns:
    """One turn per account at a time."""

    def __init__(self) -> None:
        self._descriptor = -1
        self._guard = Lock()
        # The kernel's lock is the process's, so its threads need one of their own.
        self._here: set[int] = set()

    def share(self) -> None:
        """Open the file, before the processes that will share it are forked."""
        with TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())  # open as long as the process

    @contextmanager
    def turn(
        self,
        account_id: str,
        wait_seconds: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Iterator[None]:
        """Wait for the account's turn; raise `RateLimitedError` if it does not come."""
        byte = int.from_bytes(sha256(account_id.encode()).digest()[:6])
        ends_at = time.monotonic() + (WAIT_SECONDS if wait_seconds is None else wait_seconds)
        while not self._take(byte):
            if time.monotonic() > ends_at:
                raise RateLimitedError(_BUSY, _RETRY_SECONDS)
            sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            with self._guard:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, byte)
                self._here.discard(byte)

    def _take(self, byte: int) -> bool:
        with self._guard:
            if byte in self._here:
                return False
            if self._descriptor < 0:
                self.share()
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except (BlockingIOError, PermissionError):  # POSIX allows both
                return False
            self._here.add(byte)
            return True


upload_turns: Final = UploadTurns()
