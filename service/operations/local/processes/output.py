"""Log files of bounded size for what the programs print."""

import contextlib
import fcntl
import logging
import os
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

LONGEST_LOG_BYTES: Final = 10_000_000
OLDER_LOGS: Final = 9
# Room for what is printed while the supervisor does something else. When there is none, a write of
# more than 4,096 bytes may be mixed with those of other processes.
_PIPE_BYTES: Final = 1024 * 1024


class LogFile:
    """A log that is renamed to `.1` once it is too long, and deleted after `OLDER_LOGS` renames."""

    def __init__(self, path: Path) -> None:
        self._handler = RotatingFileHandler(
            path, maxBytes=LONGEST_LOG_BYTES, backupCount=OLDER_LOGS, encoding="utf-8", delay=True
        )

    def write(self, lines: str) -> None:
        """Write lines, which stay in one file."""
        self._handler.emit(logging.makeLogRecord({"msg": lines}))


class Output:
    """A pipe that a program and all processes that it starts write to, and the log behind it.

    The pipe stays open when the program restarts: a process that outlives it can still write.
    """

    def __init__(self, log_file: Path) -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # only Linux has it, and the user may have no room left
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._log = LogFile(log_file)
        self._unfinished = b""

    def save(self) -> None:
        """Write the lines that are complete."""
        printed = self._unfinished
        with contextlib.suppress(BlockingIOError):
            printed += os.read(self.reader, _PIPE_BYTES)
        lines, newline, self._unfinished = printed.rpartition(b"\n")
        if newline:
            self._write(lines)
        if len(self._unfinished) > _PIPE_BYTES:  # an endless line is written in parts
            self.finish()

    def finish(self) -> None:
        """Write what remains of a line whose process has exited."""
        if self._unfinished:
            self._write(self._unfinished)
            self._unfinished = b""

    def _write(self, lines: bytes) -> None:
        self._log.write(lines.decode(errors="backslashreplace"))
