"""Reads logs and exports of other tools as chunks of records; text is never accepted.

A file whose rows have text is rejected with one sentence: `scrub` reads the same rows on the user's
own machine.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from detectors.contract import InvalidRow, UsageRecordV2
from detectors.errors import (
    ContractError,
    MalformedJSONError,
    NestedTooDeeplyError,
    TooComplexError,
    UnreadableLogError,
)
from detectors.formats.adapters import find_sums, read_row
from detectors.formats.adapters.adapter import State, unknown_members
from detectors.formats.adapters.calls import NO_MODEL, NO_TIME, Sighting, calls_of, record_of
from detectors.formats.adapters.duplicates import Once
from detectors.formats.adapters.rows import Row
from detectors.formats.chunks import Chunk
from detectors.formats.columns import columns_of
from detectors.formats.json_logs.documents import decode_document, reason_of

_MAX_NAMES: Final = 5
_CHUNK_ROWS: Final = 5_000
_INVALID: Final = (NO_TIME, NO_MODEL)
_KNOWN: Final = "use a log or export of a source that we know"
_SCRUB: Final = "run `tallystick scrub` on it and use the file that it writes."


class NumberedItem(NamedTuple):
    """An object of a file, as JSON or as the cells of a CSV row, and its number."""

    number: int
    value: bytes | dict[str, Any]


def read_exports(batches: Iterable[Sequence[NumberedItem]], unit: str) -> Iterator[Chunk]:
    """Yield the chunks of a file of one or more sources' rows.

    A row with text, or a member that may hold text, raises `ContractError`; one of no source that
    we know or a sum of many calls, or a file without calls, `UnreadableLogError`.
    """
    reader = _Reader(unit)
    for batch in batches:
        yield reader.read(batch)
    yield from reader.close()


class _Reader:
    """Reads the rows of one file, each call once."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._dropped: Counter[str] = Counter()
        self._once = Once(self._dropped)
        self._states: dict[str, State] = {}
        self._title = ""
        self._rows = 0

    def read(self, batch: Sequence[NumberedItem]) -> Chunk:
        records: list[UsageRecordV2] = []
        invalid: list[InvalidRow] = []
        for number, value in batch:
            document: Any = value
            if isinstance(value, bytes):
                if not value.strip():
                    continue
                try:
                    document = decode_document(value)
                except (NestedTooDeeplyError, TooComplexError):
                    where = f"The {self._unit} {number}"
                    raise ContractError(f"{where} is too large: {_SCRUB}") from None
                except MalformedJSONError:
                    invalid.append(InvalidRow(number, reason_of(value)))
                    continue
            if isinstance(document, dict):
                records += self._records_of(document, number, invalid)
            else:
                invalid.append(InvalidRow(number, "not a JSON object"))
        return self._chunk(records, invalid)

    def close(self) -> Iterator[Chunk]:
        """Yield the chunks of calls that are complete at the end, or say why there are none."""
        records = (record_of(taken.call) for taken in self._once.close())
        while some := list(islice(records, _CHUNK_ROWS)):
            yield self._chunk(some, [])
        if not self._rows and self._title:
            reasons = "; ".join(f"{count:,} {name}" for name, count in self._dropped.items())
            raise UnreadableLogError(
                f"We found no calls in this file of {self._title} ({reasons}): export one with "
                "billed calls."
            )
        if self._dropped:
            yield Chunk(columns_of([]), [], dropped=self._dropped)

    def _chunk(self, records: Sequence[UsageRecordV2], invalid: list[InvalidRow]) -> Chunk:
        self._rows += len(records) + len(invalid)
        untimed = sum(row.reason == NO_TIME for row in invalid)
        return Chunk(columns_of(records), invalid, untimed)

    def _records_of(
        self, document: dict[str, Any], number: int, invalid: list[InvalidRow]
    ) -> Iterator[UsageRecordV2]:
        row = Row(document)
        adapter, found = read_row(row, self._states)
        where = f"{self._unit} {number}"
        if adapter is None:
            sums = find_sums(row)
            if sums:
                raise UnreadableLogError(sums.refusal())
            if not self._title:
                raise UnreadableLogError(f"We don't recognize {where}: {_KNOWN}, or {_SCRUB}")
            mixed = f"We read this file as {self._title}, but {where} is not:"
            raise UnreadableLogError(f"{mixed} use a file for each, or {_SCRUB}")
        # Nothing is read from a file with members that may hold text.
        names = list(dict.fromkeys(unknown_members(document, adapter.allowed)))
        if names:
            shown = ", ".join(names[:_MAX_NAMES]) + (" and more" if names[_MAX_NAMES:] else "")
            raise ContractError(
                f"This file of {adapter.title} has fields that may hold text ({shown}) on {where}: "
                f"{_SCRUB}",
                (f"{where}: {shown}",),
            )
        self._once.note(found)
        self._title = self._title or adapter.title
        for seen in found:
            calls = seen if isinstance(seen, str) else calls_of(seen)
            if isinstance(calls, list) and isinstance(seen, Sighting):
                for call in calls:
                    for taken in self._once.add(call, seen):
                        yield record_of(taken.call)
            elif calls in _INVALID:
                invalid.append(InvalidRow(number, str(calls)))
            else:
                self._dropped[str(calls)] += 1
