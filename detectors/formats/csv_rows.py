"""The rows of a CSV text, many at a time, and the lines that they start on."""

import csv
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import NamedTuple


class Batch(NamedTuple):
    """Some rows and the lines they start on; what is no CSV comes as a row without cells."""

    lines: Sequence[int]
    rows: list[list[str]]


class CsvRows:
    """Reads the rows of a text that comes in whole lines; blank rows are left out."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._reader = csv.reader(_lines_of(pieces))

    def take(self, count: int) -> Batch | None:
        """Up to so many rows, but at least one; none at the end."""
        while True:
            first, rows, is_broken = self._reader.line_num + 1, list[list[str]](), False
            try:
                # What comes before an error stays in the list.
                rows.extend(islice(self._reader, count))
            except csv.Error:
                is_broken = True
                rows.append([])
            if not rows:
                return None
            batch = self._number(rows, first, is_broken=is_broken)
            if batch.rows:
                return batch

    def _number(self, rows: list[list[str]], first: int, *, is_broken: bool) -> Batch:
        lines: Sequence[int] = range(first, first + len(rows))
        if is_broken or self._reader.line_num != lines[-1]:
            # A cell within quotes may go on over several lines.
            spans = (1 + sum(cell.count("\n") for cell in row) for row in rows)
            lines = list(accumulate(spans, initial=first))[: len(rows)]
        if [] not in rows:
            return Batch(lines, rows)
        last = len(rows) - 1
        kept = [place for place, row in enumerate(rows) if row or (is_broken and place == last)]
        return Batch([lines[place] for place in kept], [rows[place] for place in kept])


def _lines_of(pieces: Iterator[bytes]) -> Iterator[str]:
    # What is not UTF-8 becomes lone surrogates, which no label may hold: the row is invalid.
    may_be_quoted = False
    for piece in pieces:
        lines = piece.decode("utf-8", "surrogateescape").split("\n")
        last = lines.pop()
        may_be_quoted = may_be_quoted or b'"' in piece
        # Only within quotes does it matter where a line ends.
        yield from [f"{line}\n" for line in lines] if may_be_quoted else lines
        if last:
            yield last
