"""The records of a stored batch, for tests that compare them."""

from collections.abc import Sequence

import msgspec

from detectors.contract import UsageRecord
from detectors.contract.record import StoredRecord


def decode_records(blob: bytes) -> Sequence[UsageRecord]:
    """Return the records, of the second version only if one has a field of it."""
    try:
        return msgspec.json.Decoder(UsageRecord).decode_lines(blob)
    except msgspec.ValidationError:
        return msgspec.json.Decoder(StoredRecord).decode_lines(blob)
