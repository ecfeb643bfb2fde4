"""Turns raw logs into lines of counts; remembers only recent calls."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from detectors.errors import UnreadableLogError
from detectors.formats import ColumnMapping
from detectors.formats.adapters import find_adapter, find_sums
from detectors.formats.adapters.adapter import State
from detectors.formats.adapters.calls import Sighting, calls_of
from detectors.formats.adapters.containers import page_of
from detectors.formats.adapters.duplicates import Once, Taken
from detectors.formats.adapters.exchanges import read_exchange
from detectors.formats.adapters.rows import UNREADABLE, Row
from detectors.formats.text.blocks import Advance
from detectors.scrub.tables import sight_rows
from detectors.scrub.texts import read_texts

NOT_JSON: Final = "not JSON objects"
TOO_LONG: Final = "larger than 32 MiB"

_UNREADABLE: Final = (*UNREADABLE, UnreadableLogError)  # of a page that is nested too deeply
_WRITTEN_BYTES: Final = 1 << 20


@dataclass
class Summary:
    """How many calls were written, and how many objects were dropped for which reason."""

    files: int = 0
    calls: int = 0
    hashed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons, most common first."""
        return sorted(self.dropped.items(), key=lambda item: (-item[1], item[0]))


class Scrubber:
    """Reads logs and yields lines of counts; counts what it drops.

    With a mapping, the logs are CSV files with these columns.
    """

    def __init__(self, mapping: ColumnMapping | None = None) -> None:
        self.summary = Summary()
        self._mapping = mapping
        self._once = Once(self.summary.dropped)

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the lines of the calls of a log that is the only one."""
        yield from self.add(file)
        yield from self.close()

    def add(self, file: BinaryIO, advance: Advance | None = None) -> Iterator[bytes]:
        """Yield lines of a log's calls, about a mebibyte at a time, without those of `close`."""
        self.summary.files += 1
        yield from self._joined(self._lines(file, advance))

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

    def _lines(self, file: BinaryIO, advance: Advance | None) -> Iterator[bytes]:
        if self._mapping is not None:
            for seen in sight_rows(file, self._mapping, self._counted(advance)):
                yield from self._take(seen)
            return
        state: State = {}
        for text in read_texts(file, advance):
            yield from self._lines_of(text, state)

    def _counted(self, advance: Advance | None) -> Advance:
        """Count the bytes of a file that is read in blocks."""
        before = self.summary.bytes_read

        def count(done: int) -> None:
            self.summary.bytes_read = before + done
            if advance is not None:
                advance(done)

        return count

    def _lines_of(self, text: bytes | None, state: State) -> Iterator[bytes]:
        if text is None:
            self.summary.dropped[TOO_LONG] += 1
            return
        self.summary.bytes_read += len(text) + 1
        for row, object_text in self._decode(text):
            for seen in sight(row, object_text, state):
                yield from self._take(seen)

    def _take(self, seen: Sighting | str) -> Iterator[bytes]:
        calls = seen if isinstance(seen, str) else calls_of(seen)
        if isinstance(calls, str) or isinstance(seen, str):
            self.summary.dropped[str(calls)] += 1
            return
        for call in calls:
            taken = self._once.add(call, seen.origin)
            yield from map(self._write, taken)

    def _decode(self, text: bytes) -> list[tuple[Row, bytes]]:
        """Decode the object, or the objects of a page of an API response."""
        try:
            row = Row.decode(text)
            page = page_of(row)
            return [(row, text)] if page is None else [(Row.decode(each), each) for each in page]
        except _UNREADABLE:
            if text.strip():
                self.summary.dropped[NOT_JSON] += 1
            return []

    def _write(self, taken: Taken) -> bytes:
        self.summary.calls += 1
        self.summary.hashed += taken.call.prefix_hash is not None
        return taken.line


def sight(row: Row, text: bytes, state: State) -> Iterable[Sighting | str]:
    """Read the calls of the row, or the reasons why they were not billed."""
    adapter = find_adapter(row)
    if adapter:
        return adapter.read(row, state)
    try:
        seen = read_exchange(text)
    except _UNREADABLE:
        return (NOT_JSON,)
    sums = None if seen.readings else find_sums(row)
    return (sums.reason,) if sums else (seen,)
