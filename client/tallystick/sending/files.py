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
        self._is_cut = False  # the file ends within a record, since the disk was full

    def send(self, records: list[Noted]) -> Answer:
        """Append the records and return the outcome; never raises."""
        try:
            lines = self._write(records)
        except Exception as error:
            return Answer(0, 0.0, type(error).__name__)
        return self.send_lines(lines)

    def send_lines(self, lines: list[str]) -> Answer:
        """Append records that are written already and return the outcome; never raises.

        Where the disk is full in the middle, those that are whole in the file are counted as sent.
        """
        data = "".join([f"{line}\n" for line in lines]).encode("ascii")
        start = b"\n" if self._is_cut else b""  # or the next record would be lost with the cut one
        whole, written, error = start + data, 0, None
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                # In one write if the system takes it whole: then nothing comes between.
                while written < len(whole):
                    count = os.write(file, whole[written:])
                    if not count:
                        raise OSError
                    written += count
            finally:
                os.close(file)
        except OSError as caught:
            error = caught
        done = data[: max(0, written - len(start))]
        if written:
            self._is_cut = bool(done) and not done.endswith(b"\n")
        if error is None:
            return Answer(len(lines), 0.0, self._reason)
        taken = done.count(b"\n")
        return Answer(taken, 0.0, type(error).__name__, is_temporary=not taken)
