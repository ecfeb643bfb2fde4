"""Reads SQLite databases of agents and tools: each row of each table, as JSON.

Some tools store their text as bytes, compressed or not.
"""

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from detectors.errors import DetectorError, UnreadableLogError
from detectors.formats.problems import shown_name
from detectors.formats.text.blocks import GZIP, ZSTD, read_blocks
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
        return _unpack(cell).decode()
    except (UnicodeDecodeError, DetectorError, zlib.error):
        return cell


def _unpack(cell: bytes) -> bytes:
    if cell.startswith((GZIP, ZSTD)):
        return b"".join(read_blocks(BytesIO(cell), max_bytes=MAX_TEXT_BYTES))
    if cell.startswith(_ZLIB):
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(cell, MAX_TEXT_BYTES)
        return text if unpacker.eof else cell
    return cell
