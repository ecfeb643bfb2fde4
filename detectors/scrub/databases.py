"""Reads SQLite databases of agents and tools: each row of each table, as JSON."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from detectors.errors import UnreadableLogError

_TABLES: Final = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_DAMAGED: Final = (
    "This SQLite database is damaged, locked or encrypted: copy it with its program closed."
)


def read_database(path: Path) -> Iterator[bytes]:
    """Yield the rows of a database, which is only read."""
    try:
        with closing(_open(path)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            for (table,) in database.execute(_TABLES).fetchall():
                name = table.replace('"', '""')
                rows = database.execute(f'SELECT * FROM "{name}"')  # noqa: S608
                columns = [column[0] for column in rows.description]
                for cells in rows:
                    yield msgspec.json.encode(dict(zip(columns, map(_plain, cells), strict=True)))
    except sqlite3.Error:
        raise UnreadableLogError(_DAMAGED) from None


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it: some tools store their text as bytes."""
    if not isinstance(cell, bytes):
        return cell
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def _open(path: Path) -> sqlite3.Connection:
    """Open a database; without its log of changes if that can't be read."""
    name = f"file:{quote(str(path.resolve()))}"
    database = sqlite3.connect(f"{name}?mode=ro", uri=True)
    try:
        database.execute(_TABLES).fetchone()
    except sqlite3.OperationalError:
        database.close()
        database = sqlite3.connect(f"{name}?mode=ro&immutable=1", uri=True)
    return database
