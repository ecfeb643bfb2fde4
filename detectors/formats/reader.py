"""The reader of every log format: a file in, chunks out, in bounded memory.

The library and the service both use it, so a file means the same to both.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import UnreadableLogError
from detectors.formats.archives import Advance
from detectors.formats.chunks import Chunk
from detectors.formats.csv_logs.table import read_csv
from detectors.formats.detection import EXPECTED, Format, detect_format
from detectors.formats.json_logs.arrays import split_array
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.lines import Parsed, parse_items, parse_text
from detectors.formats.problems import MAX_OFFENDERS, Offender, contract_error, unknown
from detectors.formats.sources import BLOCK_BYTES, read_blocks, split_lines

CHUNK_BYTES: Final = 1 << 20  # small enough for a core's own cache, which halves the time
# The limit for uploads, packed or unpacked; the library itself reads any size.
MAX_UPLOAD_BYTES: Final = 200 << 20


def read_chunks(
    file: BinaryIO,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> Iterator[Chunk]:
    """Yield the log's chunks in order; invalid rows have the log's own line numbers.

    In a JSON array, objects are counted instead of lines. `max_bytes` limits the file and what it
    unpacks to; `advance` receives how many of the file's bytes were read so far. Memory depends on
    `chunk_bytes` and not on the file. A caller that stores chunks must delete them if an error
    follows.

    Raises
    ------
    ContractError
        The log has fields outside the contract; raised after ten of them, or at the end.
    UnreadableLogError
        The file is in no known format, incomplete, or has no rows.
    LogTooLargeError
        More bytes than `max_bytes`.
    """
    blocks = read_blocks(
        file, block_bytes=min(chunk_bytes, BLOCK_BYTES), max_bytes=max_bytes, advance=advance
    )
    form, head = detect_format(blocks)
    rows = 0
    for chunk in _read_format(form, chain(head, blocks), chunk_bytes):
        rows += chunk.rows
        yield chunk
    if not rows:
        raise UnreadableLogError(f"This log has no rows. {EXPECTED}")


def _read_format(form: Format, blocks: Iterator[bytes], chunk_bytes: int) -> Iterator[Chunk]:
    if form.dialect is None:
        return read_csv(split_lines(blocks, chunk_bytes))
    if form.container == "array":
        return _check_contract(_parse_array(blocks, form.dialect), "object")
    return _check_contract(_parse_lines(blocks, form.dialect, chunk_bytes), "line")


def _parse_lines(blocks: Iterator[bytes], dialect: Dialect, chunk_bytes: int) -> Iterator[Parsed]:
    first = 1
    for text in split_lines(blocks, chunk_bytes):
        yield parse_text(text, first, dialect)
        first += text.count(b"\n")


def _parse_array(blocks: Iterator[bytes], dialect: Dialect) -> Iterator[Parsed]:
    first = 1
    for items in split_array(blocks):
        yield parse_items(items, first, dialect)
        first += len(items)


def _check_contract(results: Iterable[Parsed], unit: str) -> Iterator[Chunk]:
    """Yield chunks until a field breaks the contract; raise once the error is complete."""
    check, is_clean = ContractCheck(unit), True
    try:
        for parsed in results:
            if parsed.unknown_fields:
                is_clean = False
                check.add(parsed.unknown_fields)
            if is_clean:
                yield Chunk(parsed.columns, parsed.invalid)
    except UnreadableLogError:
        check.close()  # fields that came before the unreadable part are reported first
        raise
    if not is_clean:
        check.close()


class ContractCheck:
    """Collects fields outside the contract; the error names the first ten of the log.

    It counts no further than eleven, so the message is the same however the log was split.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._offenders: list[Offender] = []

    def add(self, unknown_fields: Iterable[tuple[int, str]], before: int = 0) -> None:
        """Add unknown fields by line; `before` is the number of lines before these."""
        self._offenders += [
            Offender(f"{self._where} {before + line}", unknown(name))
            for line, name in unknown_fields
        ]
        if len(self._offenders) > MAX_OFFENDERS:
            self.close()

    def close(self) -> None:
        """Raise the error if any field was added."""
        if self._offenders:
            raise contract_error(self._offenders[: MAX_OFFENDERS + 1], more="and more")
