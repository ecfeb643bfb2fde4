"""Calls of files whose columns or members are mapped, under the rules of `scrub` for names."""

from collections.abc import Iterator
from typing import BinaryIO

from detectors.contract import UsageRecord
from detectors.formats import ColumnMapping, read_chunks, records_of
from detectors.formats.adapters.calls import Sighting
from detectors.formats.columns import UNKNOWN
from detectors.formats.json_logs.usage.reader import reading_of
from detectors.formats.text.blocks import Advance


def sight_rows(
    file: BinaryIO, mapping: ColumnMapping, advance: Advance | None
) -> Iterator[Sighting | str]:
    """Yield the calls of the rows, and the reasons of rows that can't be read."""
    for chunk in read_chunks(file, mapping=mapping, advance=advance, ignores_others=True):
        records = records_of(chunk.columns)
        unknown = chunk.columns.get(UNKNOWN) or [""] * len(records)
        for record, names in zip(records, unknown, strict=True):
            seen = sighting_of(record)
            seen.readings[0].unknown.update(dict.fromkeys(names.split(), 0))
            yield seen
        for row in chunk.invalid:
            yield row.reason


def sighting_of(record: UsageRecord) -> Sighting:
    """Return the call of a record, whose names are checked again."""
    reading = reading_of(record)
    reading.units = getattr(record, "units", None) or {}
    return Sighting(
        readings=[reading],
        moments=(record.ts,),
        models=(record.model,),
        providers=(record.provider,),
        ids=(record.request_id,),
        tags=(record.tag,),
        endpoint=record.endpoint,
        latency_ms=record.latency_ms,
        caps=(record.declared_max_tokens,),
        prefix_hash=record.prefix_hash,
        prefix_hashes=getattr(record, "prefix_hashes", None),
        service_tier=getattr(record, "service_tier", None),
        environment=getattr(record, "environment", None),
        session=getattr(record, "session_id", None),
        region=getattr(record, "region", None),
        status=getattr(record, "status", None),
        reported_usd=getattr(record, "reported_usd", None),
    )
