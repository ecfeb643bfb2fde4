"""Python objects in, chunks out: records, or dicts with a record's fields.

Records are checked too, because a record can be built without a decoder.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from detectors.contract import RECORD_V2_FIELDS, InvalidRow, UsageRecord, UsageRecordV2
from detectors.errors import UnreadableLogError
from detectors.formats.checks import find_unclean_rows
from detectors.formats.chunks import Chunk
from detectors.formats.columns import columns_of, lowered
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.problems import Offenders, Problem, contract_error, describe, shown_name
from detectors.formats.records.batches import bring_to_utc

_CHUNK_ITEMS: Final = 50_000


def read_items(items: Iterable[UsageRecord | Mapping[str, Any]]) -> Iterator[Chunk]:
    """Yield the items' chunks; rows count from 1.

    A key that is no field raises `ContractError`, an item of another type `UnreadableLogError`.
    """
    source = iter(items)
    first = 1
    while batch := list(islice(source, _CHUNK_ITEMS)):
        yield _read_valid(batch) or _read_each(batch, first)
        first += len(batch)


# While one thread imports: msgspec crashes Python if two threads are the first to use a type.
msgspec.json.Decoder(list[UsageRecordV2])


def _read_valid(batch: list[UsageRecord | Mapping[str, Any]]) -> Chunk | None:
    try:
        values = [asdict(item) if isinstance(item, UsageRecord) else item for item in batch]
        records = msgspec.convert(values, list[UsageRecordV2])
        bring_to_utc(records)
    except (msgspec.ValidationError, ValueError, OverflowError, UnicodeError):
        return None
    columns = columns_of(records)
    columns["provider"] = lowered(columns["provider"])
    if find_unclean_rows(columns, may_hold_control_characters=True):
        return None
    return Chunk(columns, [])


def _read_each(batch: list[UsageRecord | Mapping[str, Any]], first: int) -> Chunk:
    records: list[UsageRecord] = []
    invalid: list[InvalidRow] = []
    offenders = Offenders()
    for row, item in enumerate(batch, first):
        if isinstance(item, UsageRecord):
            values = asdict(item)
        elif isinstance(item, Mapping):
            values = dict(item)
        else:
            raise UnreadableLogError("Pass an iterable of UsageRecord or of dicts with its fields.")
        latency = values.get("latency_ms")
        if isinstance(latency, float) and math.isnan(latency):
            values["latency_ms"] = None  # what frames write for a missing number
        for key in values:
            if key not in RECORD_V2_FIELDS:
                offenders.add(f"row {row}", Problem("unknown", shown_name(key)))
        record = read_record(values, LOG_RECORD)
        if isinstance(record, UsageRecord):
            records.append(record)
        elif unknown := [problem for problem in record if problem.kind == "unknown"]:
            for problem in unknown:
                offenders.add(f"row {row}", problem)
        else:
            invalid.append(InvalidRow(row, describe(record)))
    if offenders.named:
        raise contract_error(offenders)
    return Chunk(columns_of(records), invalid)
