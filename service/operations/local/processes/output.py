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


class LogFile(RotatingFileHandler):
    """A log that is renamed to `.1` once it is too long, and deleted after `OLDER_LOGS` renames."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path, maxBytes=LONGEST_LOG_BYTES, backupCount=OLDER_LOGS, encoding="utf-8", delay=True
        )

    def write(self, lines: str) -> None:
        """Write lines, which stay in one file."""
        self.emit(logging.makeLogRecord({"msg": lines}))


class Output(LogFile):
    """The log of a program, and the pipe to it that its processes write to.

    The pipe stays open when the program restarts: a process that outlives it can still write.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # only Linux has it, and the user may have no room left
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self._unfinished = b""

    def save(self, *, is_over: bool = False) -> None:
        """Write the complete lines; also the last one if its process `is_over`."""
        printed = self._unfinished
        with contextlib.suppress(BlockingIOError):
            printed += os.read(self.reader, _PIPE_BYTES)
        lines, newline, rest = printed.rpartition(b"\n")
        if rest and (is_over or len(rest) > _PIPE_BYTES):  # an endless line is written in parts
            lines, newline, rest = printed, b"\n", b""
        if newline:
            self.write(lines.decode(errors="backslashreplace"))
        self._unfinished = rest
