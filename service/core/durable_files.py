"""Files that appear under their name only when they are complete, and survive a crash."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import Any, BinaryIO, Final

# Without O_TMPFILE, a file gets a temporary name.
_UNNAMED: Final = getattr(os, "O_TMPFILE", None)
# Linux starts to write what is no longer needed in memory, and forgets only what it has written.
_ADVISE: Final[Callable[..., None] | None] = getattr(os, "posix_fadvise", None)
_NOT_NEEDED: Final = getattr(os, "POSIX_FADV_DONTNEED", 0)
EARLY_BYTES: Final = 8 << 20


class _EarlyWriter(FileIO):
    """Starts writing to the disk while more data comes, so that little is left for the sync."""

    _waiting = 0

    def write(self, data: Any) -> int:
        written = super().write(data)
        self._waiting += written
        if self._waiting >= EARLY_BYTES and _ADVISE:
            with suppress(OSError):  # errors of the disk are those of the sync
                _ADVISE(self.fileno(), self.tell() - self._waiting, self._waiting, _NOT_NEEDED)
            self._waiting = 0
        return written


def open_new(temporary: Path) -> BinaryIO:
    """Open a new file, without a name where that is possible: it then ends with its process."""
    if _UNNAMED is not None:
        # Not every file system supports unnamed files, and each reports it differently.
        with suppress(OSError):
            return _writer(os.open(temporary.parent, _UNNAMED | os.O_WRONLY, 0o600))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return _writer(os.open(temporary, flags, 0o600))


def _writer(descriptor: int) -> BinaryIO:
    return BufferedWriter(_EarlyWriter(descriptor, "wb"))


def give_name(file: BinaryIO, path: Path) -> None:
    """Give an unnamed file a name."""
    if os.fstat(file.fileno()).st_nlink:
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # With `src_dir_fd`, os.link follows the link in /proc to the file itself.
        os.link(f"/proc/self/fd/{file.fileno()}", path.name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def write_private(
    path: Path, content: bytes, owner: tuple[int, int] = (-1, -1), mode: int = 0o600
) -> None:
    """Replace a file, which only its owner can read; by default, that is the current user.

    `owner` is a user's ID and a group's.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchown(descriptor, *owner)
            os.fchmod(descriptor, mode)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
