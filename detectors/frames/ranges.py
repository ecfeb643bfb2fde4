"""Large files of JSON lines, read by several processes at once.

The file is cut into byte ranges. A pipe holds one ticket a range, and every process draws the
next one until none is left, so that a slow start or a busy core costs nothing. Threads would not
help: decoding holds the interpreter's lock. The helpers are fresh processes, not forks, since a
child forked after Polars was used hangs. A helper that dies, stalls or never starts only costs
time: what it did not hand back is read again here.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from io import BytesIO
from typing import IO, Final, NamedTuple, Self

import msgspec
import polars as pl

from detectors.contract import InvalidRow
from detectors.errors import UnreadableLogError
from detectors.formats.anthropic import ANTHROPIC
from detectors.formats.dialects import Dialect
from detectors.formats.lines import parse_text
from detectors.formats.openai import OPENAI
from detectors.formats.problems import MAX_OFFENDERS
from detectors.formats.reader import CHUNK_BYTES
from detectors.formats.splitting import find_line_start, split_lines
from detectors.frames.schema import CALLS, from_columns

RANGE_BYTES: Final = 8 << 20
_MAX_TICKETS: Final = 4_000  # a pipe holds all of them at once
PATIENCE_SECONDS: Final = 30.0
_TICKET: Final = struct.Struct("=I")
_LENGTHS: Final = struct.Struct("=QQ")
BOOT: Final = (
    "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task.pop('path'); "
    "from detectors.frames.ranges import worker_main; worker_main(**task)"
)
_DIALECTS: Final = {dialect.name: dialect for dialect in (OPENAI, ANTHROPIC)}


class RangeNotes(msgspec.Struct):
    """What a range held besides its calls. Lines count from 1 within the range.

    `error` says why the rest of the range, and so of the file, could not be read.
    """

    index: int
    lines: int = 0
    invalid: list[InvalidRow] = []
    strangers: list[tuple[int, str]] = []
    error: str = ""

    @property
    def ends_reading(self) -> bool:
        """Whether the file is refused at this range at the latest."""
        return bool(self.error) or len(self.strangers) > MAX_OFFENDERS


class RangeResult(NamedTuple):
    notes: RangeNotes
    frame: pl.DataFrame


@dataclass(frozen=True)
class Ranges:
    """A file of JSON lines of one dialect, cut into ranges of equal width.

    `start` is where the text begins, after a byte order mark.
    """

    descriptor: int
    start: int
    size: int
    dialect: Dialect
    range_bytes: int = RANGE_BYTES

    @property
    def width(self) -> int:
        return max(self.range_bytes, self.size // _MAX_TICKETS + 1)

    @property
    def count(self) -> int:
        return -(-self.size // self.width)

    def read(self, index: int) -> RangeResult:
        """The calls of the lines that start within the range."""
        first = max(self.start, self._line_start(index * self.width))
        end = self._line_start(min(self.size, (index + 1) * self.width))
        notes, frames = RangeNotes(index), [CALLS.to_frame()]
        try:
            for text in split_lines(self._blocks(first, end), CHUNK_BYTES):
                parsed = parse_text(text, notes.lines + 1, self.dialect)
                frames.append(from_columns(parsed.columns))
                notes.invalid += parsed.invalid
                notes.strangers += parsed.strangers
                notes.lines += text.count(b"\n")
        except UnreadableLogError as error:
            notes.error = str(error)
        return RangeResult(notes, pl.concat(frames))

    def _line_start(self, position: int) -> int:
        """Where the first line begins that begins at this position or after it.

        Within a line too long to read that is the end: the range where it begins meets it.
        """
        if position in (0, self.size):
            return position
        distance = find_line_start(self._blocks(position - 1, self.size))
        return self.size if distance is None else position - 1 + distance

    def _blocks(self, position: int, end: int) -> Iterator[bytes]:
        # Positioned reads: the processes share the open file, and with it one offset.
        while position < end and (
            block := os.pread(self.descriptor, min(CHUNK_BYTES, end - position), position)
        ):
            position += len(block)
            yield block


def read_ranges(
    ranges: Ranges, processes: int, advance: Callable[[int], None]
) -> Iterator[RangeResult]:
    """The results of all ranges, in their order; `advance` hears how far in the file it got."""
    with Helpers(ranges, processes - 1) as helpers:
        results = {}
        for result in _draw_and_read(ranges, helpers.tickets):
            results[result.notes.index] = result
            advance(min(ranges.size, (result.notes.index + 1) * ranges.width))
        results |= helpers.results()
    for index in range(ranges.count):
        # Missing: a helper lost it, or nobody drew it since the log is refused before it.
        yield results.pop(index) if index in results else ranges.read(index)


def _draw_and_read(ranges: Ranges, tickets: int) -> Iterator[RangeResult]:
    while ticket := os.read(tickets, _TICKET.size):
        result = ranges.read(*_TICKET.unpack(ticket))
        yield result
        if result.notes.ends_reading:
            while os.read(tickets, 1 << 16):
                pass  # nobody needs to read any further


class Helpers:
    """The other processes, what they are given and what they hand back."""

    def __init__(self, ranges: Ranges, count: int) -> None:
        self._ranges = ranges
        self._count = count
        self._started: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> Self:
        self.tickets, source = os.pipe()
        os.write(source, b"".join(map(_TICKET.pack, range(self._ranges.count))))
        os.close(source)
        for _ in range(self._count):
            with suppress(OSError):
                self._start()
        return self

    def _start(self) -> None:
        task = {
            "path": sys.path,
            "descriptor": self._ranges.descriptor,
            "start": self._ranges.start,
            "size": self._ranges.size,
            "dialect": self._ranges.dialect.name,
            "range_bytes": self._ranges.range_bytes,
            "tickets": self.tickets,
        }
        with ExitStack() as opened:
            file = opened.enter_context(tempfile.TemporaryFile())
            process = subprocess.Popen(  # noqa: S603 - this very interpreter, our own words
                [sys.executable, "-c", BOOT, json.dumps(task)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
                pass_fds=(self._ranges.descriptor, self.tickets),
            )
            opened.pop_all()  # from here on, the file is closed in __exit__
        self._started.append((process, file))

    def results(self) -> dict[int, RangeResult]:
        """What the helpers read, once all have ended or patience has."""
        results = {}
        for process, file in self._started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_SECONDS)
            file.seek(0)
            for result in load(file):
                results[result.notes.index] = result
        return results

    def __exit__(self, *exception: object) -> None:
        os.close(self.tickets)
        for process, file in self._started:
            process.kill()
            process.wait()
            file.close()


def worker_main(
    descriptor: int, start: int, size: int, dialect: str, range_bytes: int, tickets: int
) -> None:
    """A helper's whole life: draw, read, and write the results to standard output."""
    ranges = Ranges(descriptor, start, size, _DIALECTS[dialect], range_bytes)
    for result in _draw_and_read(ranges, tickets):
        dump(result, sys.stdout.buffer)


def dump(result: RangeResult, file: IO[bytes]) -> None:
    frame = BytesIO()
    result.frame.write_ipc_stream(frame)
    notes = msgspec.msgpack.encode(result.notes)
    file.write(_LENGTHS.pack(len(notes), frame.tell()))
    file.write(notes)
    file.write(frame.getbuffer())
    file.flush()


def load(file: IO[bytes]) -> Iterator[RangeResult]:
    """The results in a helper's output; one that it did not finish writing is left out."""
    while len(lengths := file.read(_LENGTHS.size)) == _LENGTHS.size:
        notes_length, frame_length = _LENGTHS.unpack(lengths)
        notes, frame = file.read(notes_length), file.read(frame_length)
        if len(frame) < frame_length:
            return
        yield RangeResult(msgspec.msgpack.decode(notes, type=RangeNotes), pl.read_ipc_stream(frame))
