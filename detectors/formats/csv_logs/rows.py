"""CSV text in pieces of whole lines, or as rows with their line numbers.

Most pieces have no errors and are never read row by row.
"""

import csv
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Final, NamedTuple

from detectors.errors import UnreadableLogError
from detectors.formats.text.splitting import MAX_ROW_BYTES, too_long

# Few enough that the rows are freed before Python's garbage collector runs, which would take longer
# than everything else.
_BATCH_ROWS: Final = 500
PADDING: Final = " \t"
_TOO_LONG: Final = "field larger"  # as the csv module says
NEVER_CLOSED: Final = (
    "A quoted cell has no closing quote, or is far too long: export the file again."
)


class Batch(NamedTuple):
    """Rows and the lines they start on; a row that is not CSV has no cells."""

    lines: Sequence[int]
    rows: list[list[str]]


class CsvText:
    """Reads CSV text, without blank rows. All methods share one position in the text."""

    def __init__(self, pieces: Iterator[bytes], delimiter: str) -> None:
        self._pieces = pieces
        self._lines: Iterator[str] = iter(())
        self._given = 0  # lines that the row reader received
        self._skipped = 0  # lines that it did not receive
        self._rows: list[list[str]] = []  # of the current batch, as far as they are read
        self._rows_before = 0  # how many of them were complete before the last piece
        self._row_bytes = 0  # in pieces that the current row continued into
        self._reader = csv.reader(self._feed(), delimiter=delimiter, skipinitialspace=True)

    def pieces(self) -> Iterator[bytes]:
        """Return the remaining pieces; skip or read each before taking the next."""
        return self._pieces

    def skip(self, piece: bytes) -> None:
        """Count the lines of a piece that was read in another way."""
        self._skipped += piece.count(b"\n") + (not piece.endswith(b"\n"))

    def read(self, piece: bytes) -> Iterator[Batch]:
        """Yield the piece's rows; a quoted cell may continue into the next piece."""
        self._open(piece)
        return self.rest()

    def rest(self) -> Iterator[Batch]:
        """Yield the remaining rows of the current piece."""
        while batch := self._take(_BATCH_ROWS):
            if batch.rows:
                yield batch

    def first(self) -> list[str]:
        for piece in self._pieces:
            text = piece.lstrip(b"\r\n")
            self._skipped += piece.count(b"\n", 0, len(piece) - len(text))
            self._open(text)
            while batch := self._take(1):
                if batch.rows:
                    return batch.rows[0]
        return []

    def _feed(self) -> Iterator[str]:
        """Yield the lines of the piece, and of later pieces within a quoted cell."""
        while True:
            lines = self._lines
            yield from lines
            if self._lines is lines:
                # A quoted cell continues into the next piece.
                if len(self._rows) > self._rows_before:
                    self._rows_before, self._row_bytes = len(self._rows), 0
                if self._row_bytes > MAX_ROW_BYTES:
                    raise too_long("longest row", MAX_ROW_BYTES)
                piece = next(self._pieces, None)
                if piece is None:
                    return
                self._row_bytes += len(piece)
                self._open(piece, is_within_quotes=True)

    def _open(self, piece: bytes, *, is_within_quotes: bool = False) -> None:
        # Bytes that are not UTF-8 become lone surrogates, which are invalid in labels.
        lines = piece.decode("utf-8", "surrogateescape").split("\n")
        if not lines[-1]:
            lines.pop()
        if is_within_quotes or b'"' in piece:
            # Only within quotes does it matter where a line ends.
            lines = [f"{line}\n" for line in lines]
        self._lines = iter(lines)
        self._given += len(lines)

    def _take(self, count: int) -> Batch | None:
        # A row has at least one line, so this many rows never read past the end of the piece,
        # except for a quoted cell that continues.
        count = min(count, self._given - self._reader.line_num)
        if not count:
            return None
        first, rows, is_broken = self._skipped + self._reader.line_num + 1, list[list[str]](), False
        self._rows, self._rows_before, self._row_bytes = rows, 0, 0
        try:
            # Rows before an error stay in the list.
            rows.extend(
                [cell.strip(PADDING) for cell in row] for row in islice(self._reader, count)
            )
        except csv.Error as error:
            begin = first + sum(map(_span, rows))
            if self._skipped + self._reader.line_num > begin and _TOO_LONG in str(error):
                raise UnreadableLogError(NEVER_CLOSED) from None
            is_broken = True
            rows.append([])
        lines: Sequence[int] = range(first, first + len(rows))
        if is_broken or self._skipped + self._reader.line_num != first + len(rows) - 1:
            # A quoted cell may span several lines.
            lines = list(accumulate(map(_span, rows), initial=first))[: len(rows)]
        if [] not in rows:
            return Batch(lines, rows)
        last = len(rows) - 1
        kept = [index for index, row in enumerate(rows) if row or (is_broken and index == last)]
        return Batch([lines[index] for index in kept], [rows[index] for index in kept])


def _span(row: list[str]) -> int:
    return 1 + sum(cell.count("\n") for cell in row)
