"""Files that appear under their name only when they are complete, and survive a crash."""

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

# Without O_TMPFILE, a file gets a temporary name.
_UNNAMED: Final = getattr(os, "O_TMPFILE", None)


def open_new(temporary: Path) -> BinaryIO:
    """Open a new file, without a name where that is possible: it then ends with its process."""
    if _UNNAMED is not None:
        # Not every file system supports unnamed files, and each reports it differently.
        with suppress(OSError):
            return os.fdopen(os.open(temporary.parent, _UNNAMED | os.O_WRONLY, 0o600), "wb")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(temporary, flags, 0o600), "wb")


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


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
