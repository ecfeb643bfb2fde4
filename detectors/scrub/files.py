"""Scrubs files and folders into one file, which is complete or does not exist."""

import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import quote

import msgspec

from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats.csv_logs.mapping import Mapped, as_mapping
from detectors.formats.csv_logs.proposals import explain_error
from detectors.formats.problems import shown_name
from detectors.formats.text.blocks import GZIP, SQLITE, ZSTD, Advance, read_blocks
from detectors.scrub.folders import Folders, Log
from detectors.scrub.scrubber import Scrubber, Summary, find_written
from detectors.scrub.texts import MAX_TEXT_BYTES

_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_ZLIB: Final = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_DAMAGED: Final = (
    "This SQLite database is damaged, locked or encrypted: copy it with its program closed."
)


def read_database(path: Path, skip: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the rows of a database, which is only read.

    `skip` is called with the reason for each cell of bytes that are no text.
    """
    try:
        name = f"file:{quote(str(path.resolve()))}"
        database = sqlite3.connect(f"{name}?mode=ro", uri=True)
        try:
            database.execute(_TABLES).fetchone()
        except sqlite3.OperationalError:  # its log of changes can't be read
            database.close()
            database = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
        with closing(database):
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            for (table,) in database.execute(_TABLES).fetchall():
                quoted = table.replace('"', '""')
                rows = database.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608
                columns = [column[0] for column in rows.description]
                for cells in rows:
                    row = dict(zip(columns, map(_plain, cells), strict=True))
                    for column in [name for name, cell in row.items() if isinstance(cell, bytes)]:
                        row[column] = None
                        named = f"`{shown_name(table, '…')}.{shown_name(column, '…')}`"
                        skip(f"bytes that are no text in {named}")
                    yield msgspec.json.encode(row)
    except sqlite3.Error:
        raise UnreadableLogError(_DAMAGED) from None


def _plain(cell: Any) -> Any:
    if not isinstance(cell, bytes):
        return cell
    try:
        if cell.startswith((GZIP, ZSTD)):
            unpacked = b"".join(read_blocks(BytesIO(cell), max_bytes=MAX_TEXT_BYTES))
        elif cell.startswith(_ZLIB):
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(cell, MAX_TEXT_BYTES)
            unpacked = text if unpacker.eof else cell
        else:
            unpacked = cell
        return unpacked.decode()
    except (UnicodeDecodeError, DetectorError, zlib.error):
        return cell


def scrub(
    sources: Iterable[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    mapping: Mapped | None = None,
    at: datetime | None = None,
    hash_short_prompts: bool = False,
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
    hash_short_prompts : bool, optional
        Hash prompts of fewer than 1,024 characters, too; a text so short may be found by guessing.

    Raises
    ------
    UnreadableLogError
        A file is incomplete, or a damaged archive.
    OSError
        A file cannot be read or written.
    """
    scrubber = Scrubber(as_mapping(mapping), at, hashes_short=hash_short_prompts)
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
    outputs = []
    for log in (each for each in found if each.is_found):
        with suppress(DetectorError, OSError), log.path.open("rb") as file:
            start = next(read_blocks(file, block_bytes=_LONGEST_CALL), b"")
            if find_written(start.split(b"\n", 1)[0]) is not None:
                outputs.append(log)
    if len(outputs) == len(found):
        return found
    for log in outputs:
        summary.skip("output of `tallystick scrub` among its logs, read if you name it", log.path)
    return [log for log in found if log not in outputs]


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
