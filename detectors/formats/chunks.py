"""What a reader hands on at a time: a bounded number of calls, and the rows that are none."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from detectors.contract import InvalidRow, InvalidRows
from detectors.formats.columns import COLUMNS, Columns

FIRST_INVALID: Final = 100


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a log: the valid ones as columns, the invalid ones with their reasons."""

    columns: Columns
    invalid: list[InvalidRow]

    @property
    def rows(self) -> int:
        return len(self.columns[COLUMNS[0]]) + len(self.invalid)


def join_chunks(chunks: Sequence[Chunk]) -> Chunk:
    """Chunks that follow one another as one."""
    columns = {
        name: list(chain.from_iterable(chunk.columns[name] for chunk in chunks)) for name in COLUMNS
    }
    return Chunk(columns, [row for chunk in chunks for row in chunk.invalid])


@dataclass
class InvalidTally:
    """Counts invalid rows by reason as they come, and keeps the first hundred."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[InvalidRow] = field(default_factory=list)

    def add(self, rows: Iterable[InvalidRow]) -> None:
        for row in rows:
            self.counts[row.reason] += 1
            if len(self.first) < FIRST_INVALID:
                self.first.append(row)

    def summary(self) -> InvalidRows:
        """The tally as the report shows it, the most frequent reason first."""
        reasons = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return InvalidRows(
            count=self.counts.total(), reasons=dict(reasons), first=tuple(self.first)
        )
