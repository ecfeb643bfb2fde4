"""Records on disk, so that those of a process that is killed are sent by the next one.

A spool is a folder of segments. Each has the lines of one batch at most, so that a segment that was
sent just before its process was killed is sent again with the same idempotency key. The lock of a
segment belongs to the process that writes or sends it, and ends with that process. On a disk
without file locks two processes would send the same segment, so there is no spool on it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from itertools import count

from tallystick.sending.schema import read_line

MAX_BYTES = 64 * 1024 * 1024
MAX_LINES = 5_000
_SUFFIX = ".records"
_MOST_TRIES = 10
_FULL = (errno.ENOSPC, errno.EDQUOT)
_numbers = count()


class Segment:
    """A file of records that this process has locked."""

    def __init__(self, path: str, file: int) -> None:
        self.path = path
        self.lines = 0
        self._file = file

    def append(self, lines: list[str]) -> bool:
        """Write the lines, all or none."""
        data = "".join([f"{line}\n" for line in lines]).encode("ascii")
        size = os.fstat(self._file).st_size
        try:
            if os.write(self._file, data) == len(data):
                self.lines += len(lines)
                return True
        except OSError:
            pass
        os.ftruncate(self._file, size)  # the disk is full
        return False

    def read(self) -> list[str]:
        """Return its records, without a line that was cut off or changed."""
        try:
            data = os.pread(self._file, min(MAX_BYTES, os.fstat(self._file).st_size), 0)
        except OSError:
            return []
        lines = data.decode("ascii", "replace").split("\n")[:-1]
        return [line for line in lines[:MAX_LINES] if read_line(line) is not None]

    def remove(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass
        finally:
            self.release()

    def release(self) -> None:
        """Leave the file to any process that claims it."""
        os.close(self._file)


class Spool:
    """The segments of a folder; one of them is written by this process.

    Raises OSError if its disk has no file locks, or the folder can't be written.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        os.makedirs(folder, 0o700, exist_ok=True)
        self._current: Segment | None = None
        self._sealed: list[Segment] = []
        self._stuck: set[str] = set()  # the paths of segments that can't be removed
        self._try_locks()

    def room(self) -> int:
        """Return how many lines the current segment takes, or a new one if it is full."""
        written = self._current.lines if self._current is not None else 0
        return MAX_LINES - written % MAX_LINES

    def append(self, lines: list[str]) -> bool:
        """Write lines that there is room for, and return False if that failed."""
        try:
            needed = sum(map(len, lines)) + len(lines)
            while self._size() + needed > MAX_BYTES:
                oldest = self.claim()
                if oldest is None or not self.discard(oldest):
                    raise OSError
            if self._current is not None and self._current.lines >= MAX_LINES:
                self._sealed.append(self._current)
                self._current = None
            if self._current is None:
                self._current = self._create()
            return self._current.append(lines)
        except OSError:
            return False

    def take(self) -> list[Segment]:
        """Return the segments that this process has written, which are then the caller's."""
        taken = [*self._sealed, *filter(None, [self._current])]
        self._sealed, self._current = [], None
        return taken

    def discard(self, segment: Segment) -> bool:
        """Remove a segment of the caller's, and return False if that failed: it stays ignored."""
        try:
            segment.remove()
        except OSError:
            self._stuck.add(segment.path)
            return False
        return True

    def claim(self) -> Segment | None:
        """Return the oldest segment that no process has locked."""
        for path in self._paths():
            try:
                segment = self._lock(path)
            except OSError:  # of another user, or the disk has no locks any more
                continue
            if segment is not None:
                return segment
        return None

    def forget(self) -> None:
        """Close the files that a fork has copied; their locks stay with the parent."""
        for segment in self.take():
            try:
                segment.release()
            except OSError:
                pass

    @property
    def has_segments(self) -> bool:
        return bool(self._paths())

    def _paths(self) -> list[str]:
        """Return the segments, oldest first."""
        try:
            names = os.listdir(self.folder)
        except OSError:  # the folder was removed
            return []
        names = sorted(name for name in names if name.endswith(_SUFFIX))
        paths = [os.path.join(self.folder, name) for name in names]
        return [path for path in paths if path not in self._stuck]

    def _try_locks(self) -> None:
        try:
            self._create().remove()
        except OSError as error:
            if error.errno not in _FULL:  # there may be space again later
                raise

    def _create(self) -> Segment:
        for _ in range(_MOST_TRIES):
            name = f"{time.time_ns():020}-{os.getpid()}-{next(_numbers)}{_SUFFIX}"
            path = os.path.join(self.folder, name)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            try:
                segment = self._lock(path, keep_empty=True)
            except OSError:
                os.unlink(path)
                raise
            if segment is not None:  # or another process has removed it, since it was empty
                return segment
        raise OSError

    def _lock(self, path: str, *, keep_empty: bool = False) -> Segment | None:
        """Return the segment, or None if another process has it; raise if it can't be locked."""
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        segment = Segment(path, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(file)
        except BlockingIOError:
            segment.release()
            return None
        except OSError:
            segment.release()
            raise
        if not status.st_nlink:
            segment.release()
        elif not status.st_size and not keep_empty:
            self.discard(segment)
        else:
            return segment
        return None

    def _size(self) -> int:
        total = 0
        with os.scandir(self.folder) as entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_size
                except FileNotFoundError:
                    pass
        return total
