"""The canonical form: records re-encoded field by field as JSON Lines, the only form kept.

Stored data is built from checked, typed values and never from the received bytes, so nothing
outside the contract can survive in it. Invalid rows become lines such as
`{"line":3,"reason":"missing field model"}`. A call that was not billed at the standard tier also
has its service tier.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import BinaryIO, Final, Literal

import msgspec

from detectors.contract import InvalidRow, UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats.chunks import Chunk
from detectors.formats.columns import SERVICE_TIERS, columns_of
from detectors.formats.fields import to_utc
from detectors.formats.json_logs.dialect import service_tiers
from detectors.formats.splitting import split_lines

STORED_CHUNK_BYTES: Final = 1 << 20
_INVALID_START: Final = b'{"line":'  # no record can contain this: its quotes would be escaped


class _Line(msgspec.Struct, omit_defaults=True, gc=False):
    """A record made from columns by position, which is several times faster.

    The members are in the order of `UsageRecord`, so both encode to the same bytes.
    """

    ts: datetime
    provider: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    latency_ms: float | None = None
    endpoint: str = ""
    request_id: str = ""
    tag: str = ""
    declared_max_tokens: int = 0
    prefix_hash: str = ""
    service_tier: str = ""


class _StoredRecord(
    UsageRecord, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """A record as `_Line` encodes it."""

    service_tier: Literal[*SERVICE_TIERS] | None = None  # type: ignore[valid-type]


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(UsageRecord)
_STORED_DECODER: Final = msgspec.json.Decoder(_StoredRecord)
_INVALID_DECODER: Final = msgspec.json.Decoder(InvalidRow)
_FIELDS: Final = _Line.__struct_fields__[1:]


def encode_records(records: Iterable[UsageRecord]) -> bytes:
    """Return the records as canonical JSON Lines: times in UTC, absent fields omitted."""
    return _ENCODER.encode_lines([_in_utc(record) for record in records])


def encode_chunk(chunk: Chunk) -> bytes:
    """Return a chunk as canonical JSON Lines: its calls, then its invalid rows."""
    columns = chunk.columns
    # Exact to the microsecond in every year that a record may have, and by far the fastest way.
    seconds = [instant / 1_000_000 for instant in columns["ts"]]
    instants = msgspec.convert(seconds, list[datetime], strict=False)
    fields = (columns[name] for name in _FIELDS)
    lines = list(map(_Line, instants, *fields))
    return _ENCODER.encode_lines([*lines, *chunk.invalid] if chunk.invalid else lines)


def decode_records(blob: bytes) -> list[UsageRecord]:
    """Decode what `encode_records` wrote; anything else raises `UnreadableLogError`."""
    with _unreadable_on_error():
        return _DECODER.decode_lines(blob)


def read_stored(file: BinaryIO, *, chunk_bytes: int = STORED_CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield the chunks that `encode_records` or `encode_chunk` wrote, in bounded memory.

    Anything else raises `UnreadableLogError`.
    """
    blocks = iter(lambda: file.read(chunk_bytes), b"")
    for text in split_lines(blocks, chunk_bytes):
        yield _decode_chunk(text)


def _decode_chunk(text: bytes) -> Chunk:
    invalid: list[InvalidRow] = []
    if _INVALID_START in text:
        lines = text.splitlines(keepends=True)
        invalid_lines = [line for line in lines if line.startswith(_INVALID_START)]
        text = b"".join(line for line in lines if not line.startswith(_INVALID_START))
        with _unreadable_on_error():
            invalid = _INVALID_DECODER.decode_lines(b"".join(invalid_lines))
    with _unreadable_on_error():
        records = _STORED_DECODER.decode_lines(text)
    columns = columns_of(records) | {
        "service_tier": service_tiers([record.service_tier for record in records])
    }
    return Chunk(columns, invalid)


@contextmanager
def _unreadable_on_error() -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnreadableLogError("The blob is not a canonical re-encoding of records.") from None


def _in_utc(record: UsageRecord) -> UsageRecord:
    if record.ts.tzinfo is UTC:
        return record
    return msgspec.structs.replace(record, ts=to_utc(record.ts))
