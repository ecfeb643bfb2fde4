"""A CSV text that comes in pieces of whole lines: the pieces themselves, or rows and their lines.

Most pieces are flawless and never read row by row; the reader of rows sees only the others.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

# So few rows at once that they are gone before Python's collector looks at them, which would take
# longer than all the rest.
_BATCH_ROWS: Final = 500


class Batch(NamedTuple):
    """Some rows and the lines they start on; what is no CSV comes as a row without cells."""

    lines: Sequence[int]
    rows: list[list[str]]


class CsvText:
    """Reads a CSV text; blank rows are left out. All methods share one place in the text."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._lines: Iterator[str] = iter(())
        self._given = 0  # lines that the reader of rows was given, of which it takes one by one
        self._passed = 0  # lines that it never saw
        self._reader = csv.reader(self._feed())

    def pieces(self) -> Iterator[bytes]:
        """The pieces not yet begun; each is to be passed over or read before the next is taken."""
        return self._pieces

    def pass_over(self, piece: bytes) -> None:
        """Count the lines of a piece that was read in another way."""
        self._passed += _count_lines(piece)

    def read(self, piece: bytes) -> Iterator[Batch]:
        """The piece's rows, and what follows as far as a cell within quotes leads into it."""
        self._open(piece)
        return self.rest()

    def rest(self) -> Iterator[Batch]:
        """The rows of the piece that was begun."""
        while batch := self._take(_BATCH_ROWS):
            if batch.rows:
                yield batch

    def first(self) -> list[str]:
        """The first row that is not blank; no cells where there is none, or it is no CSV."""
        batches = (batch for piece in self._pieces for batch in self._begin(piece))
        return next((batch.rows[0] for batch in batches if batch.rows), [])

    def _begin(self, piece: bytes) -> Iterator[Batch]:
        self._open(piece)
        return iter(lambda: self._take(1), None)

    def _feed(self) -> Iterator[str]:
        """The lines for the reader: those of the piece, and of later ones where it wants more."""
        while True:
            lines = self._lines
            yield from lines
            if self._lines is lines:
                piece = next(self._pieces, None)
                if piece is None:
                    return
                self._open(piece, is_within_quotes=True)

    def _open(self, piece: bytes, *, is_within_quotes: bool = False) -> None:
        # What is not UTF-8 becomes lone surrogates, which no label may hold: the row is invalid.
        lines = piece.decode("utf-8", "surrogateescape").split("\n")
        if not lines[-1]:
            lines.pop()
        if is_within_quotes or b'"' in piece:
            # Only within quotes does it matter where a line ends.
            lines = [f"{line}\n" for line in lines]
        self._lines = iter(lines)
        self._given += len(lines)

    def _take(self, count: int) -> Batch | None:
        """Up to so many rows of the piece that was begun; none at its end."""
        # A row takes a line at least: no more are asked for, so that the reader ends where the
        # piece does, but for a cell within quotes that goes on.
        count = min(count, self._given - self._reader.line_num)
        if not count:
            return None
        first, rows, is_broken = self._passed + self._reader.line_num + 1, list[list[str]](), False
        try:
            # What comes before an error stays in the list.
            rows.extend(islice(self._reader, count))
        except csv.Error:
            is_broken = True
            rows.append([])
        return self._number(rows, first, is_broken=is_broken)

    def _number(self, rows: list[list[str]], first: int, *, is_broken: bool) -> Batch:
        lines: Sequence[int] = range(first, first + len(rows))
        if is_broken or self._passed + self._reader.line_num != first + len(rows) - 1:
            # A cell within quotes may go on over several lines.
            spans = (1 + sum(cell.count("\n") for cell in row) for row in rows)
            lines = list(accumulate(spans, initial=first))[: len(rows)]
        if [] not in rows:
            return Batch(lines, rows)
        last = len(rows) - 1
        kept = [place for place, row in enumerate(rows) if row or (is_broken and place == last)]
        return Batch([lines[place] for place in kept], [rows[place] for place in kept])


def _count_lines(piece: bytes) -> int:
    return piece.count(b"\n") + (not piece.endswith(b"\n"))
