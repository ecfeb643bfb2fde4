"""Scrubs files and folders into one file, which is complete or does not exist."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from detectors.formats.csv_logs.mapping import Mapped, as_mapping
from detectors.scrub.scrubber import Scrubber, Summary

_SUFFIXES: Final = tuple(
    f".{kind}{packed}"
    for kind in ("jsonl", "json", "ndjson", "log", "csv")
    for packed in ("", ".gz")
)


def scrub(
    sources: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mapping: Mapped | None = None,
) -> Summary:
    """Write the calls of raw logs as one counts-only log.

    Parameters
    ----------
    sources
        Files of JSON lines or arrays, gzipped or not, or folders of such files.
    out
        The file to write; it appears after everything was read.
    mapping : dict or ColumnMapping, optional
        The columns of CSV files with other names, as for `detectors.read`.

    Raises
    ------
    UnreadableLogError
        A file is incomplete, or a damaged archive.
    OSError
        A file cannot be read or written.
    """
    scrubber = Scrubber(as_mapping(mapping))
    with writing(Path(out)) as file:
        for source in sources:
            for path in find_files(Path(source)):
                with path.open("rb") as log:
                    file.writelines(scrubber.add(log))
        file.writelines(scrubber.close())
    return scrubber.summary


def find_files(path: Path) -> list[Path]:
    """Return the file itself, or a folder's logs at any depth, sorted by name."""
    if not path.is_dir():
        return [path]
    return sorted(
        file for file in path.rglob("*") if file.name.lower().endswith(_SUFFIXES) and file.is_file()
    )


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` at the end, or is deleted on an error."""
    if path.is_dir() or (path.exists() and not path.is_file()):
        with path.open("wb") as file:  # a pipe or a device is written directly; a folder raises
            yield file
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
