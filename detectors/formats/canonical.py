"""The canonical form: records re-encoded field by field as JSON Lines, the only form kept.

Stored data is built from checked, typed values and never from the received bytes, so nothing
outside the contract can survive in it. Invalid rows become lines such as
`{"line":3,"reason":"missing field model"}`, and rows that are no calls a line for each reason:
`{"line":0,"reason":"failed, so not billed","rows":12}`. The standard service tier is omitted, as it
is the default.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter
from typing import Any, BinaryIO, Final

import msgspec

from detectors.contract import (
    STORED_FIELDS,
    UNITS,
    InvalidRow,
    RecordField,
    StoredRecord,
    UsageRecord,
    UsageRecordV2,
)
from detectors.errors import UnreadableLogError
from detectors.formats.chunks import Chunk
from detectors.formats.columns import COLUMNS, by_field, columns_of, empty_value
from detectors.formats.fields import STANDARD_TIER
from detectors.formats.moments import to_utc
from detectors.formats.text.splitting import split_lines

STORED_CHUNK_BYTES: Final = 1 << 20
_NOT_CANONICAL: Final = "The blob is not a canonical re-encoding of records."
_INVALID_START: Final = b'{"line":'  # no record can contain this: its quotes would be escaped


class _LeftOut(msgspec.Struct):
    """An invalid row, or how many rows are no calls for a reason."""

    line: int
    reason: str
    rows: int = 0


# The value of each field where a call has none; `by_field` has None for what it makes.
_EMPTY: Final = {
    field.name: None if field.kind in ("units", "hashes") else empty_value(field.name)
    for field in STORED_FIELDS
    if not field.is_required
}


def _line(name: str, fields: Iterable[RecordField]) -> type[msgspec.Struct]:
    """Return a record that is made from columns by position, which is several times faster.

    Its members are in the order of `StoredRecord`, so both encode to the same bytes.
    """
    members = [
        (field.name, Any) if field.is_required else (field.name, Any, _EMPTY[field.name])
        for field in fields
    ]
    return msgspec.defstruct(name, members, omit_defaults=True, gc=False)


_Line: Final = _line("_Line", (field for field in STORED_FIELDS if field.name in COLUMNS))
_LineV2: Final = _line("_LineV2", STORED_FIELDS)
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(UsageRecord)
_V2_DECODER: Final = msgspec.json.Decoder(StoredRecord)
_LEFT_OUT_DECODER: Final = msgspec.json.Decoder(_LeftOut)


def encode_records(records: Iterable[UsageRecord]) -> bytes:
    """Return the records as canonical JSON Lines: times in UTC, absent fields omitted."""
    kept = list(records)
    # The records of most decoded batches are already as they are stored.
    kinds = set(map(type, kept))
    is_normal = len(kinds) == 1 and all([record.ts.tzinfo is UTC for record in kept])
    if is_normal and kinds != {UsageRecord}:
        tiers = set(map(attrgetter("service_tier"), kept))
        units = list(map(attrgetter("units"), kept))
        is_normal = STANDARD_TIER not in tiers and units.count(None) == len(units)
    return _ENCODER.encode_lines(kept if is_normal else list(map(_normalize, kept)))


def encode_chunk(chunk: Chunk) -> bytes:
    """Return a chunk as canonical JSON Lines: its calls, then the rows that are none."""
    columns = by_field(chunk.columns)
    # Exact to the microsecond in every year that a record may have, and by far the fastest way.
    seconds = [instant / 1_000_000 for instant in columns["ts"]]
    instants = msgspec.convert(seconds, list[datetime], strict=False)
    line = _LineV2 if columns.keys() - set(COLUMNS) else _Line
    names = line.__struct_fields__[1:]
    fields = (columns[name] if name in columns else repeat(_EMPTY[name]) for name in names)
    lines: list[msgspec.Struct] = list(map(line, instants, *fields))
    lines += chunk.invalid
    lines += [_LeftOut(0, reason, rows) for reason, rows in chunk.dropped.items()]
    return _ENCODER.encode_lines(lines)


def read_stored(file: BinaryIO, *, chunk_bytes: int = STORED_CHUNK_BYTES) -> Iterator[Chunk]:
    """Yield the chunks that `encode_records` or `encode_chunk` wrote, in bounded memory.

    Anything else raises `UnreadableLogError`.
    """
    blocks = iter(lambda: file.read(chunk_bytes), b"")
    for text in split_lines(blocks, chunk_bytes):
        left_out: list[_LeftOut] = []
        calls = text
        try:
            if _INVALID_START in text:
                lines = text.splitlines(keepends=True)
                others = [line for line in lines if line.startswith(_INVALID_START)]
                calls = b"".join(line for line in lines if not line.startswith(_INVALID_START))
                left_out = _LEFT_OUT_DECODER.decode_lines(b"".join(others))
            try:
                # Most records have no field of the second version, and the first decodes faster.
                records: Sequence[UsageRecord] = _DECODER.decode_lines(calls)
            except msgspec.ValidationError:
                records = _V2_DECODER.decode_lines(calls)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise UnreadableLogError(
                "The blob is not a canonical re-encoding of records."
            ) from None
        invalid = [InvalidRow(each.line, each.reason) for each in left_out if not each.rows]
        dropped = {each.reason: each.rows for each in left_out if each.rows}
        yield Chunk(columns_of(records), invalid, dropped=dropped)


def _normalize(record: UsageRecord) -> UsageRecord:
    if record.ts.tzinfo is not UTC:
        record = msgspec.structs.replace(record, ts=to_utc(record.ts))
    if isinstance(record, UsageRecordV2):
        if record.service_tier == STANDARD_TIER:
            record = msgspec.structs.replace(record, service_tier=None)
        if record.units is not None:
            units = {unit: record.units[unit] for unit in UNITS if record.units.get(unit)}
            record = msgspec.structs.replace(record, units=units or None)
    return record
