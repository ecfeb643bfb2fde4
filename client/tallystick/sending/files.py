"""A file instead of a service: exactly the records that would leave, one per line."""

from __future__ import annotations

import os
from typing import Callable

from tallystick.sending.records import Noted, reason_of
from tallystick.sending.transport import Answer


class FileSender:
    """Appends to a file that only its user can read; several processes can share it."""

    def __init__(self, path: str, write: Callable[[list[Noted]], list[str]]) -> None:
        self._path = path
        self._write = write
        self._reason = reason_of(write)

    def send(self, records: list[Noted]) -> Answer:
        return self.send_lines(self._write(records))

    def send_lines(self, lines: list[str]) -> Answer:
        """Append records that are written already and return the outcome; never raises."""
        data = "".join([f"{line}\n" for line in lines]).encode("ascii")
        try:
            append(self._path, data)
        except OSError as error:
            return Answer(0, 0.0, type(error).__name__, is_temporary=True)
        return Answer(len(lines), 0.0, self._reason)


def append(path: str, data: bytes) -> None:
    """Append in one write, so that nothing of another process comes between."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, data)
    finally:
        os.close(file)
