"""One reader for every log: a file of any of the formats into chunks, in bounded memory.

The library and the service both read through here, so that a file is judged in one way.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Final

from detectors.errors import UnreadableLogError
from detectors.formats.chunks import Chunk
from detectors.formats.detection import EXPECTED, Format, detect
from detectors.formats.dialects import Dialect
from detectors.formats.generic_csv import read_csv
from detectors.formats.lines import Parsed, parse_items, parse_text
from detectors.formats.problems import MAX_OFFENDERS, Offender, contract_error, unknown
from detectors.formats.sources import BLOCK_BYTES, Advance, read_blocks
from detectors.formats.splitting import MAX_LINE_BYTES, split_array, split_lines

CHUNK_BYTES: Final = 1 << 20  # small enough for a core's own cache, which halves the time
HEAD_BYTES: Final = 1 << 18


def read_chunks(
    file: BinaryIO,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    max_bytes: int | None = None,
    advance: Advance | None = None,
) -> Iterator[Chunk]:
    """The log's chunks, in its order; invalid rows carry the log's own line numbers.

    In a JSON array rows count by object instead. `max_bytes` bounds the file and what it unpacks
    to; `advance` hears how many of the file's bytes were read so far. Nothing is kept of what
    was yielded, so memory depends on `chunk_bytes` and not on the file. A consumer that stores
    chunks must throw them away if an error follows.

    Raises
    ------
    ContractError
        The log names fields outside the contract; raised once ten are known, or at the end.
    UnreadableLogError
        The file is in none of the formats, breaks off, or holds no row.
    LogTooLargeError
        More bytes than `max_bytes`.
    """
    blocks = read_blocks(
        file, block_bytes=min(chunk_bytes, BLOCK_BYTES), max_bytes=max_bytes, advance=advance
    )
    head, is_whole = read_head(blocks)
    form = detect_head(head, is_whole=is_whole)
    rows = 0
    for chunk in _read_format(form, chain([head], blocks), chunk_bytes):
        rows += chunk.rows
        yield chunk
    if not rows:
        raise UnreadableLogError(f"the log holds no row: {EXPECTED}")


def read_head(blocks: Iterator[bytes]) -> tuple[bytes, bool]:
    """The beginning that decides the format, at least one line of it, and whether it is all."""
    head = b""
    while len(head) < HEAD_BYTES or (b"\n" not in head.lstrip() and len(head) <= MAX_LINE_BYTES):
        block = next(blocks, None)
        if block is None:
            return head, True
        head += block
    return head, False


def detect_head(head: bytes, *, is_whole: bool) -> Format:
    """The format, judged by the same first bytes however large the blocks were."""
    start = len(head) - len(head.lstrip())
    size = max(HEAD_BYTES, head.find(b"\n", start) + 1)
    return detect(head[:size], is_whole=is_whole and size >= len(head))


def _read_format(form: Format, blocks: Iterator[bytes], chunk_bytes: int) -> Iterator[Chunk]:
    if form.dialect is None:
        return read_csv(split_lines(blocks, chunk_bytes))
    if form.container == "array":
        return raise_contract(_parse_array(blocks, form.dialect), "object")
    return raise_contract(_parse_lines(blocks, form.dialect, chunk_bytes), "line")


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


def raise_contract(runs: Iterable[Parsed], where: str) -> Iterator[Chunk]:
    """The runs as chunks until a field breaks the contract; then the error, once complete.

    It names the first ten fields of the log and whether there are more, however it was cut.
    """
    offenders: list[Offender] = []
    for parsed in runs:
        offenders += [
            Offender(f"{where} {number}", unknown(name)) for number, name in parsed.strangers
        ]
        if len(offenders) > MAX_OFFENDERS:
            break
        if not offenders:
            yield Chunk(parsed.columns, parsed.invalid)
    if offenders:
        raise contract_error(offenders[: MAX_OFFENDERS + 1], more="and more")
