"""Splits a large file of JSON lines into byte ranges that can be read separately.

A range contains the lines that start within it, so every line is read exactly once.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import polars as pl

from detectors.contract import InvalidRow
from detectors.errors import UnreadableLogError
from detectors.formats.json_logs.dialect import Dialect
from detectors.formats.json_logs.lines import parse_objects
from detectors.formats.problems import MAX_OFFENDERS
from detectors.formats.reader import CHUNK_BYTES
from detectors.formats.text.splitting import find_line_start, lines_of, split_lines
from detectors.frames.uniform import UniformReader
from detectors.frames.usage_log import concat, from_columns

RANGE_BYTES: Final = 8 << 20
MAX_RANGES: Final = 4_000  # a pipe holds the tickets of all of them


class RangeNotes(msgspec.Struct):
    """What a range contains besides its calls. Lines count from 1 within the range.

    `error` is why the rest of the range, and so of the file, could not be read.
    """

    index: int
    lines: int = 0
    invalid: list[InvalidRow] = []
    unknown_fields: list[tuple[int, str]] = []
    untimed: int = 0
    error: str = ""

    @property
    def ends_reading(self) -> bool:
        """Check whether this range already makes the file invalid."""
        return bool(self.error) or len(self.unknown_fields) > MAX_OFFENDERS


class RangeResult(NamedTuple):
    notes: RangeNotes
    frame: pl.DataFrame


class Ranges(msgspec.Struct, frozen=True):
    """A file of JSON lines of one dialect, split into ranges of equal width.

    `start` is the first byte of text, after a byte order mark. Ranges of one form have categories
    instead of labels that repeat if `has_categories` is set.
    """

    descriptor: int
    start: int
    size: int
    dialect: Dialect
    range_bytes: int = RANGE_BYTES
    has_categories: bool = False
    uniform: UniformReader = msgspec.field(default_factory=UniformReader)

    @property
    def width(self) -> int:
        return max(self.range_bytes, self.size // MAX_RANGES + 1)

    @property
    def count(self) -> int:
        return -(-self.size // self.width)

    def read(self, index: int) -> RangeResult:
        """Read the calls of the lines that start within the range."""
        first, end = self._limits(index)
        notes, frames = RangeNotes(index), list[pl.DataFrame]()
        try:
            for text in split_lines(self._blocks(first, end), CHUNK_BYTES):
                lines = lines_of(text)
                parsed = parse_objects(lines, notes.lines + 1, self.dialect)
                frames.append(from_columns(parsed.columns))
                notes.invalid += parsed.invalid
                notes.unknown_fields += parsed.unknown_fields
                notes.untimed += parsed.untimed
                notes.lines += len(lines)
        except UnreadableLogError as error:
            notes.error = str(error)
        return RangeResult(notes, concat(frames))

    def read_uniform(self, index: int) -> RangeResult | None:
        """Read a range whose lines have one form; None if `read` must read it.

        Threads can do this at the same time, because it hardly holds the interpreter lock.
        """
        first, end = self._limits(index)
        if not 0 < end - first <= self.width + CHUNK_BYTES:
            return None
        # One block is not copied again.
        text = b"".join(self._blocks(first, end, most=end - first))
        # Categories here and not later, because they take a quarter of the memory of texts.
        calls = self.uniform.read(text, self.dialect, has_categories=self.has_categories)
        if calls is None:
            return None
        # Polars reads a range as several parts, and every later step takes longer for each part.
        return RangeResult(RangeNotes(index, calls.height), calls.rechunk())

    def _limits(self, index: int) -> tuple[int, int]:
        first = max(self.start, self._line_start(index * self.width))
        return first, self._line_start(min(self.size, (index + 1) * self.width))

    def _line_start(self, position: int) -> int:
        """Return where the first line starts at this position or after it.

        Within a line that is too long, return the end: the range where the line starts reports it.
        """
        if position in (0, self.size):
            return position
        distance = find_line_start(self._blocks(position - 1, self.size))
        return self.size if distance is None else position - 1 + distance

    def _blocks(self, position: int, end: int, most: int = CHUNK_BYTES) -> Iterator[bytes]:
        # `pread`, because the processes share the open file and its offset.
        while position < end and (
            block := os.pread(self.descriptor, min(most, end - position), position)
        ):
            position += len(block)
            yield block
