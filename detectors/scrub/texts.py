"""Splits raw logs of any size into the texts of their objects: lines, an array, one object, CSV."""

import csv
from codecs import getincrementaldecoder
from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

import msgspec

from detectors.errors import UnreadableLogError
from detectors.formats.adapters.tables import is_export_header, row_of
from detectors.formats.csv_logs.names import (
    DELIMITERS,
    find_foreign_header,
    has_usage,
    header_cells,
)
from detectors.formats.csv_logs.rows import NEVER_CLOSED
from detectors.formats.text.blocks import Advance, read_blocks
from detectors.formats.text.splitting import join_document, split_array

MAX_TEXT_BYTES: Final = 32 << 20  # of one object: far more than any model's context
_MAX_HEADER_BYTES: Final = 1 << 16
_CUT: Final = b"a row without its end"


def read_texts(file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes | None]:
    """Yield each object of the file as JSON text; None for an object that is too large."""
    blocks = read_blocks(file, advance=advance)
    head = b""
    for block in blocks:
        head += block
        if b"\n" in head.lstrip() or len(head) > _MAX_HEADER_BYTES:
            break
    blocks = chain([head], blocks)
    first = head.lstrip().split(b"\n", 1)[0].strip()
    line = first.decode("utf-8", "replace").strip()
    if not line.startswith(("{", "[")) and len(line) <= _MAX_HEADER_BYTES:
        for delimiter in DELIMITERS:
            names = header_cells(line, delimiter)
            if is_export_header(names) or has_usage(names):
                return _read_table(blocks, delimiter)
        if columns := find_foreign_header(line):
            error = UnreadableLogError(
                "This CSV has column names of its own: map or drop each column."
            )
            error.columns = tuple(columns)
            error.head = head
            raise error
    if head.lstrip().startswith(b"["):
        return chain.from_iterable(split_array(blocks))
    if first == b"{":
        return iter([join_document(blocks)])
    return _read_lines(blocks)


def _read_lines(blocks: Iterator[bytes]) -> Iterator[bytes | None]:
    """Yield the lines; a line that is too long is discarded while it is read."""
    kept, size = list[bytes](), 0
    for block in blocks:
        for index, part in enumerate(block.split(b"\n")):
            if index:
                yield b"".join(kept) if size <= MAX_TEXT_BYTES else None
                kept, size = [], 0
            size += len(part)
            if size <= MAX_TEXT_BYTES:
                kept.append(part)
            else:
                kept = []
    yield b"".join(kept) if size <= MAX_TEXT_BYTES else None


def _read_table(blocks: Iterator[bytes], delimiter: str) -> Iterator[bytes]:
    limit, ends = csv.field_size_limit(MAX_TEXT_BYTES), list[str]()
    try:
        rows = csv.reader(_decode_lines(blocks, ends), delimiter=delimiter)
        names = [name.strip() for name in next(row for row in rows if row)]
        last = list[str]()
        for cells in filter(None, rows):
            if last:
                yield msgspec.json.encode(row_of(names, last))
            last = cells
        if last and len(last) < len(names) and ends[-1]:
            yield _CUT  # as in a backup that was made while the file was written
        elif last:
            yield msgspec.json.encode(row_of(names, last))
    except csv.Error:
        raise UnreadableLogError(NEVER_CLOSED) from None
    finally:
        csv.field_size_limit(limit)


def _decode_lines(blocks: Iterator[bytes], ends: list[str]) -> Iterator[str]:
    """Yield lines with their ends; bytes that are not UTF-8 are replaced.

    What is after the last end of a line is added to `ends`.
    """
    decoder, rest = getincrementaldecoder("utf-8")("replace"), ""
    for block in blocks:
        *lines, rest = (rest + decoder.decode(block)).split("\n")
        yield from (f"{line}\n" for line in lines)
    ends.append(rest + decoder.decode(b"", final=True))
    yield ends[-1]
