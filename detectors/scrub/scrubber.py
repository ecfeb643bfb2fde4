"""Turns raw logs into lines of counts; remembers only recent calls."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from detectors.contract import UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import ColumnMapping, read_chunks, records_of
from detectors.formats.adapters import find_sums, read_row
from detectors.formats.adapters.adapter import Adapter, State
from detectors.formats.adapters.calls import (
    NO_USAGE,
    SHORTEST_HASHED,
    Call,
    Sighting,
    calls_of,
    encode_call,
    record_of,
)
from detectors.formats.adapters.containers import page_of
from detectors.formats.adapters.duplicates import Once, TakenCall
from detectors.formats.adapters.exchanges import read_exchange
from detectors.formats.adapters.rows import UNREADABLE, Row
from detectors.formats.columns import UNKNOWN
from detectors.formats.csv_logs.proposals import propose_for_objects
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.json_logs.unread import explain, is_unread
from detectors.formats.json_logs.usage.reader import reading_of
from detectors.formats.problems import describe
from detectors.formats.text.blocks import Advance
from detectors.scrub.texts import read_texts


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
        billing=getattr(record, "billing", None),
    )


OTHER: Final = "for other reasons"
NOT_JSON: Final = "not JSON objects, or cut off"
TOO_LONG: Final = "larger than 32 MiB"

_UNREADABLE: Final = (*UNREADABLE, UnreadableLogError)  # of a page that is nested too deeply
_WRITTEN_BYTES: Final = 1 << 20
_MAX_REASONS: Final = 30
_SAMPLE: Final = 50  # objects from which a mapping is proposed
_SAMPLE_BYTES: Final = 4 << 20
_LONGEST_CALL: Final = 4_096  # bytes, as a line that is written


@dataclass
class Summary:
    """How many calls were written, and how many objects and files were not read for which reason.

    `proposals` are options with which files of unknown tools can be read, each with a file.
    """

    files: int = 0
    calls: int = 0
    hashed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    titles: set[str] = field(default_factory=set)  # of the sources
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, Path] = field(default_factory=dict)
    proposals: dict[str, Path | None] = field(default_factory=dict)

    def drop(self, reason: str) -> None:
        """Count an object; names of fields are listed for as many reasons as anyone reads."""
        is_listed = reason in self.dropped or len(self.dropped) < _MAX_REASONS
        self.dropped[reason if is_listed else OTHER] += 1

    def propose(self, options: str, path: Path | None) -> None:
        """Note how a file can be read; the first with these options is named."""
        self.proposals.setdefault(options, path)

    def skip(self, reason: str, path: Path) -> None:
        self.skipped[reason] += 1
        self.examples.setdefault(reason, path)

    def reasons(self) -> list[tuple[str, int]]:
        return sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))


class Scrubber:
    """Reads logs and yields lines of counts; counts what it drops.

    With a mapping, the logs are CSV files with these columns. Calls without a time get `at`. Short
    prompts, which could be guessed from their hash, have one only if `hashes_short`.
    """

    def __init__(
        self,
        mapping: ColumnMapping | None = None,
        at: datetime | None = None,
        *,
        hashes_short: bool = False,
    ) -> None:
        self._at = at
        self._least = 0 if hashes_short else SHORTEST_HASHED
        self.summary = Summary()
        self.path: Path | None = None  # of the log that is read, if it has one
        self._mapping = mapping
        self._once = Once(self.summary.dropped)
        self._unread: list[bytes] = []

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        yield from self.add(file)
        yield from self.close()

    def add(self, file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes]:
        """Yield lines of a log's calls, about a mebibyte at a time, without those of `close`."""
        self.summary.files += 1
        if self._mapping is None:
            yield from self._joined(self._lines_of_texts(read_texts(file, advance)))
            return
        before = self.summary.bytes_read

        def count(done: int) -> None:
            self.summary.bytes_read = before + done
            if advance is not None:
                advance(done)

        seen = sight_rows(file, self._mapping, count)
        yield from self._joined(chain.from_iterable(map(self._take, seen)))

    def add_texts(self, texts: Iterator[bytes], size: int) -> Iterator[bytes]:
        """Yield lines of the calls of objects that came from a file of this size."""
        self.summary.files += 1
        before = self.summary.bytes_read
        yield from self._joined(self._lines_of_texts(texts))
        self.summary.bytes_read = before + size

    def close(self) -> Iterator[bytes]:
        """Yield the lines of calls that later logs could have repeated or completed."""
        yield from self._joined(map(self._write, self._once.close()))

    def _joined(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        kept, size = list[bytes](), 0
        for line in lines:
            kept.append(line)
            size += len(line) + 1
            if size >= _WRITTEN_BYTES:
                yield self._join(kept)
                kept, size = [], 0
        yield self._join(kept)

    def _join(self, lines: list[bytes]) -> bytes:
        lines.append(b"")
        joined = b"\n".join(lines)
        self.summary.bytes_written += len(joined)
        return joined

    def _lines_of_texts(self, texts: Iterable[bytes | None]) -> Iterator[bytes]:
        states: dict[str, State] = {}
        self._unread = []
        for text in texts:
            if text is None:
                self.summary.dropped[TOO_LONG] += 1
                continue
            self.summary.bytes_read += len(text) + 1
            rows: list[tuple[Row, bytes]] = []
            try:
                row = Row.decode(text)
                page = page_of(row)
                rows = (
                    [(row, text)] if page is None else [(Row.decode(each), each) for each in page]
                )
            except _UNREADABLE:
                if text.strip():
                    self.summary.dropped[NOT_JSON] += 1
            for row, object_text in rows:
                adapter, read = read_row(row, states, self.path)
                self._once.note(read)
                found = _sight(row, object_text, adapter, read, self._at)
                for seen in found:
                    yield from self._take(seen)
                if isinstance(found[0], str) and is_unread(found[0]):
                    # Kept for a proposal while all of them stay small.
                    kept = sum(map(len, self._unread))
                    if len(self._unread) < _SAMPLE and kept + len(object_text) <= _SAMPLE_BYTES:
                        self._unread.append(object_text)
        if self._unread:
            self.summary.propose(propose_for_objects(self._unread), self.path)

    def _take(self, seen: Sighting | str) -> Iterator[bytes]:
        if self._at is not None and isinstance(seen, Sighting):
            seen.moments += (self._at,)
        calls = seen if isinstance(seen, str) else calls_of(seen, self._least)
        if isinstance(calls, str) or isinstance(seen, str):
            self.summary.drop(str(calls))
            return
        self.summary.titles.add(seen.way)
        for call in calls:
            taken = self._once.add(call, seen)
            yield from map(self._write, taken)

    def _write(self, taken: TakenCall) -> bytes:
        self.summary.calls += 1
        self.summary.hashed += bool(taken.call.prefix_hash or taken.call.prefix_hashes)
        return taken.line


def _sight(
    row: Row,
    text: bytes,
    adapter: Adapter | None,
    found: Sequence[Sighting | str],
    at: datetime | None,
) -> Sequence[Sighting | str]:
    """Return the calls of the row that an adapter has found, or others, or why there are none."""
    if any(seen != NO_USAGE if isinstance(seen, str) else seen.readings for seen in found):
        return found
    if adapter is None and (call := find_written(text)):
        own = sighting_of(record_of(call))
        (reading,) = own.readings
        names = (call.unknown_fields or "").split()
        reading.unknown = dict.fromkeys(names, call.unknown_largest or 0)
        reading.is_assumed = bool(call.input_assumed)
        return (own,)
    try:
        seen = read_exchange(text)
    except _UNREADABLE:
        return (NOT_JSON,)
    if seen.readings and any(seen.models):
        return (seen,)
    if sums := find_sums(row):
        return (sums.reason,)
    if seen.readings:
        return (seen,)
    if "prompt_tokens" in row and "model" in row:
        values = row.plain(LOG_RECORD)
        if at is not None and values.get("ts") is None:
            values["ts"] = at.isoformat()
        record = read_record(values, LOG_RECORD)
        return (sighting_of(record) if isinstance(record, UsageRecord) else describe(record),)
    return (explain(row, text, adapter.repeats if adapter else frozenset()),)


def find_written(line: bytes) -> Call | None:
    """Return the call of a line that is, to the byte, what `scrub` writes of it."""
    if not line.startswith(b'{"ts":"') or len(line) > _LONGEST_CALL:
        return None
    try:
        call = _decode_call(line)
    except UNREADABLE:
        return None
    return call if encode_call(call) == line else None


_decode_call: Final = msgspec.json.Decoder(Call).decode
