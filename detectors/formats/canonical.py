"""The canonical form: records re-encoded field by field as JSON Lines, the only form kept.

What is stored is built from checked, typed values and never from the bytes that came, so that
nothing that the contract does not name can survive in it.
"""

from collections.abc import Iterable
from datetime import UTC
from typing import Final

import msgspec

from detectors.contract import UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats.fields import to_utc

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(UsageRecord)


def encode_records(records: Iterable[UsageRecord]) -> bytes:
    """The records as canonical JSON Lines: times in UTC, absent fields left out."""
    return _ENCODER.encode_lines([_in_utc(record) for record in records])


def decode_records(blob: bytes) -> list[UsageRecord]:
    """The records that `encode_records` wrote; raises `UnreadableLogError` for anything else."""
    try:
        return _DECODER.decode_lines(blob)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnreadableLogError("the blob is not a canonical re-encoding of records") from None


def _in_utc(record: UsageRecord) -> UsageRecord:
    if record.ts.tzinfo is UTC:
        return record
    return msgspec.structs.replace(record, ts=to_utc(record.ts))
