"""Scrubs files and folders into one file, which is complete or does not exist."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from detectors.errors import DetectorError
from detectors.formats.csv_logs.mapping import Mapped, as_mapping
from detectors.formats.csv_logs.proposals import explain_error
from detectors.formats.text.blocks import SQLITE, Advance, read_blocks
from detectors.scrub.databases import read_database
from detectors.scrub.folders import Folders, Log
from detectors.scrub.scrubber import Scrubber, Summary, find_written


def scrub(
    sources: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mapping: Mapped | None = None,
    at: datetime | None = None,
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
    at : datetime, optional
        The time of calls that have none, such as those of a batch.

    Raises
    ------
    UnreadableLogError
        A file is incomplete, or a damaged archive.
    OSError
        A file cannot be read or written.
    """
    scrubber = Scrubber(as_mapping(mapping), at)
    with writing(Path(out)) as file:
        for log in find_logs(map(Path, sources), scrubber.summary):
            file.writelines(add_log(scrubber, log))
        file.writelines(scrubber.close())
    return scrubber.summary


def find_logs(sources: Iterable[Path], summary: Summary) -> list[Log]:
    """Return files, and the logs of folders at any depth, sorted by name; each file once.

    An output of an earlier run that lies among the logs of a folder would count their calls twice.
    """
    folders = Folders(summary)
    found = [
        log
        for source in sources
        for log in (folders.logs(source) if source.is_dir() else folders.named(source))
    ]
    outputs = [log for log in found if log.is_found and _is_output(log.path)]
    if len(outputs) == len(found):
        return found
    for log in outputs:
        summary.skip("output of `tallystick scrub` among its logs, read if you name it", log.path)
    return [log for log in found if log not in outputs]


def _is_output(path: Path) -> bool:
    """Check whether the first line of a file is one that `scrub` wrote."""
    try:
        with path.open("rb") as file:
            start = next(read_blocks(file, block_bytes=_LONGEST_CALL), b"")
    except (DetectorError, OSError):
        return False
    return find_written(start.split(b"\n", 1)[0]) is not None


_LONGEST_CALL: Final = 1 << 14


def add_log(scrubber: Scrubber, log: Log, advance: Advance | None = None) -> Iterator[bytes]:
    """Yield lines of a log's calls; one of a folder that can't be read is counted as skipped.

    What was read before it ended, or was found to be damaged, counts.
    """
    scrubber.path = log.path
    try:
        with log.path.open("rb") as file:
            start = file.read(len(SQLITE)) if file.seekable() else b""
            if start == SQLITE:
                rows = read_database(log.path, partial(scrubber.summary.skip, path=log.path))
                yield from scrubber.add_texts(rows, log.path.stat().st_size)
            else:
                if start:
                    file.seek(0)
                yield from scrubber.add(file, advance)
    except (DetectorError, OSError) as error:
        if not log.is_found:
            raise
        said = str(error) if isinstance(error, DetectorError) else error.strerror or str(error)
        scrubber.summary.skip(said.removesuffix("."), log.path)
        if isinstance(error, DetectorError) and (proposal := explain_error(error)[1]):
            scrubber.summary.propose(proposal, log.path)


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
