"""The reader of every log format: a file in, chunks out, in bounded memory.

The library and the service both use it, so a file means the same to both.
"""

from collections.abc import Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import ContractError, UnreadableLogError
from detectors.formats.adapters.containers import objects_of, read_export_file
from detectors.formats.chunks import Chunk
from detectors.formats.csv_logs.mapping import ColumnMapping
from detectors.formats.csv_logs.table import read_csv
from detectors.formats.detection import EXPECTED, detect_format
from detectors.formats.json_logs.lines import read_json
from detectors.formats.json_logs.mapped import read_mapped, read_mapped_cells
from detectors.formats.text.blocks import BLOCK_BYTES, Advance, read_blocks
from detectors.formats.text.splitting import MAX_ROW_BYTES, lines_of, split_array, split_lines

CHUNK_BYTES: Final = 1 << 17  # small enough for a core's own cache, which halves the time
_NO_TIMES: Final = (
    "We can't audit a log without a time in any row, and Anthropic's messages don't include one: "
    "add ts to each row, such as 2026-11-01T12:00:00Z, or run `tallystick scrub` with --at."
)


def read_chunks(
    file: BinaryIO,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
    mapping: ColumnMapping | None = None,
    ignores_others: bool = False,
) -> Iterator[Chunk]:
    """Yield the log's chunks in order; invalid rows have the log's own line numbers.

    In a JSON array, objects are counted instead of lines. `max_bytes` limits the file and what it
    unpacks to; `advance` receives how many of the file's bytes were read so far. `mapping` makes
    the columns of a CSV, or members of JSON, fields; with `ignores_others`, other members of JSON
    may hold anything. Memory depends on `chunk_bytes` and not on the file. A caller that
    stores chunks must delete them if an error follows.

    Raises
    ------
    ContractError
        The log has fields outside the contract; raised once the error is complete, or at the end.
    ColumnMappingError
        The mapping does not fit the file's columns.
    UnreadableLogError
        The file is in no known format, incomplete, or has no rows or no times.
    LogTooLargeError
        More bytes than `max_bytes`.
    """
    blocks = read_blocks(
        file, block_bytes=min(chunk_bytes, BLOCK_BYTES), max_bytes=max_bytes, advance=advance
    )
    form, blocks = detect_format(blocks, mapping)
    head = next(blocks, b"")
    rows = untimed = 0
    try:
        blocks = chain([head], blocks)
        if mapping is not None and form.container != "csv":
            objects = objects_of(form.container, blocks, chunk_bytes)
            chunks = read_mapped(objects, mapping, ignores_others=ignores_others)
        elif mapping is not None and form.has_json:
            pieces = split_lines(blocks, chunk_bytes, MAX_ROW_BYTES)
            chunks = read_mapped_cells(
                pieces, form.delimiter, mapping, ignores_others=ignores_others
            )
        elif form.is_export:
            chunks = read_export_file(form.container, blocks, chunk_bytes, form.delimiter)
        elif form.dialect is None:
            pieces = split_lines(blocks, chunk_bytes, MAX_ROW_BYTES)
            chunks = read_csv(pieces, form.delimiter, mapping)
        elif form.container == "array":
            chunks = read_json(split_array(blocks), form.dialect, "object")
        else:
            pieces = split_lines(blocks, chunk_bytes)
            chunks = read_json(map(lines_of, pieces), form.dialect, "line")
        for chunk in chunks:
            rows += chunk.rows
            untimed += chunk.untimed
            yield chunk
    except (ContractError, UnreadableLogError) as error:
        if mapping is None:
            error.head = error.head or head
        raise
    if not rows:
        raise UnreadableLogError(f"This log has no rows: {EXPECTED}")
    check_times(untimed, rows)


def check_times(untimed: int, rows: int) -> None:
    """Raise an error if no row of a log has a time: no audit of it could be made."""
    if rows and untimed == rows:
        raise UnreadableLogError(_NO_TIMES)
