"""The rows of an export in whatever contains them: lines, an array, CSV, one object, or a page."""

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

from detectors.errors import UnreadableLogError
from detectors.formats.adapters.reading import NumberedItem, read_exports
from detectors.formats.adapters.rows import UNREADABLE, Row
from detectors.formats.adapters.tables import read_table
from detectors.formats.chunks import Chunk
from detectors.formats.text.splitting import (
    MAX_ROW_BYTES,
    join_document,
    lines_of,
    split_array,
    split_array_start,
    split_lines,
)

_INCOMPLETE: Final = (
    "This file starts like one JSON object over several lines, but it isn't complete JSON: export "
    "it again, one object per line if you can."
)


def read_export_file(
    container: str, blocks: Iterator[bytes], chunk_bytes: int, delimiter: str
) -> Iterator[Chunk]:
    if container == "csv":
        pieces = split_lines(blocks, chunk_bytes, MAX_ROW_BYTES)
        return read_exports(read_table(pieces, delimiter), "line")
    unit = "line" if container == "lines" else "object"
    return read_exports(objects_of(container, blocks, chunk_bytes), unit)


def objects_of(
    container: str, blocks: Iterator[bytes], chunk_bytes: int
) -> Iterator[list[NumberedItem]]:
    if container == "document":
        text = join_document(blocks)
        try:
            page = page_of(Row.decode(text))
        except UNREADABLE:
            raise UnreadableLogError(_INCOMPLETE) from None
        return _number(iter([[text] if page is None else page]))
    if container == "array":
        return _number(split_array(blocks))
    return _number(map(lines_of, split_lines(blocks, chunk_bytes)))


def _number(batches: Iterator[Sequence[bytes]]) -> Iterator[list[NumberedItem]]:
    numbers = count(1)
    for texts in batches:
        yield [NumberedItem(next(numbers), text) for text in texts]


def page_of(row: Row) -> list[bytes] | None:
    """Return the objects of a page of an API's response, or of a batch of our own; else None."""
    page = b"" if row.has("usage") else row.raw("data") or row.raw("records")
    return list(split_array_start(page)) if page.startswith(b"[") else None
