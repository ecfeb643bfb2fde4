"""Finds the logs of a folder, and counts what is none."""

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Final, NamedTuple

from detectors.formats.text.blocks import SQLITE, is_packed
from detectors.scrub.scrubber import Summary

_SUFFIXES: Final = tuple(
    f".{kind}{packed}"
    for kind in ("jsonl", "json", "ndjson", "log", "csv")
    for packed in ("", ".gz", ".zst")
)
# What SQLite keeps beside a database, and reads with it.
_OF_DATABASE: Final = ("-wal", "-shm", "-journal")
_START_BYTES: Final = 64


class Log(NamedTuple):
    """A file to read; `is_found` if it was found in a folder and not named."""

    path: Path
    is_found: bool = False


class Folders:
    """Walks through folders once, through their links too, and notes what is skipped and why."""

    def __init__(self, skipped: Summary) -> None:
        self._skipped = skipped
        self._seen: set[tuple[int, int]] = set()

    def named(self, path: Path) -> Iterator[Log]:
        if not path.is_file() or self._is_new(path.stat()):
            yield Log(path)
        else:
            self._skipped.skip("file that was read already", path)

    def logs(self, folder: Path) -> Iterator[Log]:
        """Yield the logs at any depth, sorted by name."""
        if not self._is_new(folder.stat()):
            self._skipped.skip("link to a folder that was read already", folder)
            return
        try:
            names = sorted(os.listdir(folder))
        except OSError as error:
            self._skipped.skip(f"folder: {error.strerror}", folder)
            return
        for path in map(folder.joinpath, names):
            try:
                found = path.stat()
            except OSError as error:
                what = "link" if path.is_symlink() else "file"
                self._skipped.skip(f"{what}: {error.strerror}", path)
                continue
            if S_ISDIR(found.st_mode):
                yield from self.logs(path)
            elif not S_ISREG(found.st_mode):
                self._skipped.skip("no file: a socket, pipe or device", path)
            elif not self._is_new(found):
                self._skipped.skip("link to a file that was read already", path)
            elif not found.st_size:
                self._skipped.skip("empty file", path)
            elif path.name.lower().endswith(_SUFFIXES) or self._has_log(path):
                yield Log(path, is_found=True)

    def _is_new(self, found: os.stat_result) -> bool:
        key = (found.st_dev, found.st_ino)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _has_log(self, path: Path) -> bool:
        """Check whether the file begins as a log does, whatever its name."""
        if (
            path.name.endswith(_OF_DATABASE)
            and path.with_name(path.name.rpartition("-")[0]).exists()
        ):
            return False
        try:
            with path.open("rb") as file:
                start = file.read(_START_BYTES)
        except OSError as error:
            self._skipped.skip(f"file: {error.strerror}", path)
            return False
        if start.startswith(SQLITE) or is_packed(start) or start.lstrip().startswith((b"{", b"[")):
            return True
        suffix = path.suffix if path.suffix.isascii() else ""
        self._skipped.skip(f"no log by its name or content ({suffix or 'no suffix'})", path)
        return False
