"""Reads the ranges of one file: those with lines of one form in threads, others in processes.

A pipe holds one ticket per range, and each process takes the next ticket until none is left, so a
slow start or a busy core costs nothing. Threads do not help the others: decoding holds the
interpreter lock. The workers are new processes, not forks, because a child forked after Polars was
used hangs.
If a worker dies, stalls or never starts, this process reads its ranges again.
"""

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import islice
from typing import IO, Final, Self

import msgspec
import polars as pl

from detectors.formats.detection import LINE_DIALECTS
from detectors.formats.text.blocks import Advance
from detectors.frames.ranges import RangeNotes, RangeResult, Ranges

WORKER_TIMEOUT_SECONDS: Final = 30.0
_TICKET: Final = struct.Struct("=I")
_MOST_LOST: Final = 2  # ranges, until others are not even tried
RANGES_AT_ONCE: Final = 128  # whose calls are in memory together
_LENGTHS: Final = struct.Struct("=QQ")
_NOTES: Final = msgspec.msgpack.Decoder(RangeNotes)
BOOT: Final = (
    "import json, sys; task = json.loads(sys.argv[1]); sys.path[:] = task.pop('path'); "
    "from detectors.frames.range_workers import worker_main; worker_main(**task)"
)
_DIALECTS: Final = {dialect.name: dialect for dialect in LINE_DIALECTS}


def read_ranges(
    ranges: Ranges, processes: int, advance: Advance | None, first: RangeResult | None = None
) -> Iterator[RangeResult]:
    """Yield the results of all ranges in order; `advance` receives the bytes read so far.

    `first` is the result of the first range, if its lines have one form and were read already.
    """
    done = _Done(ranges, advance)
    for begin in range(0, ranges.count, RANGES_AT_ONCE):
        indexes = range(begin, min(begin + RANGES_AT_ONCE, ranges.count))
        others, results, lost = iter(indexes), dict[int, RangeResult](), 0
        if first and not begin:
            results[next(others)] = first
            done.add(0)
        # One more than there are processors, because a thread waits where a step has one part only.
        with ThreadPoolExecutor(processes + 1) as pool:
            # One more waits, because they may end in another order than they began.
            first_ones = islice(others, processes + 2)
            started = [pool.submit(ranges.read_uniform, index) for index in first_ones]
            while started:
                result = started.pop(0).result()
                if result:
                    results[result.notes.index] = result
                    done.add(result.notes.index)
                elif not results:
                    break
                lost += not result
                if lost <= _MOST_LOST + len(results) // 2:
                    started += [
                        pool.submit(ranges.read_uniform, index) for index in islice(others, 1)
                    ]
        missing = [index for index in indexes if index not in results]
        if processes > 1 and len(missing) > 1:
            with RangeWorkers(ranges, processes - 1, missing) as workers:
                for result in _take_and_read(ranges, workers.tickets):
                    results[result.notes.index] = result
                    done.add(result.notes.index)
                results |= workers.results()
        for index in indexes:
            # Missing if a worker lost it, or if an earlier range ended the reading.
            yield results.pop(index) if index in results else ranges.read(index)


class _Done:
    """Reports how far ranges were read; ranges that are read again do not move it back."""

    def __init__(self, ranges: Ranges, advance: Advance | None) -> None:
        self._ranges = ranges
        self._advance = advance
        self._position = 0

    def add(self, index: int) -> None:
        position = min(self._ranges.size, (index + 1) * self._ranges.width)
        if self._advance and position > self._position:
            self._position = position
            self._advance(position)


def _take_and_read(ranges: Ranges, tickets: int) -> Iterator[RangeResult]:
    while ticket := os.read(tickets, _TICKET.size):
        result = ranges.read(*_TICKET.unpack(ticket))
        yield result
        if result.notes.ends_reading:
            while os.read(tickets, 1 << 16):
                pass  # discard the other tickets


class RangeWorkers:
    def __init__(self, ranges: Ranges, count: int, indexes: Iterable[int] | None = None) -> None:
        self._ranges = ranges
        self._count = count
        self._indexes = range(ranges.count) if indexes is None else indexes
        self._started: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> Self:
        self.tickets, source = os.pipe()
        os.write(source, b"".join(map(_TICKET.pack, self._indexes)))
        os.close(source)
        for _ in range(self._count):
            with suppress(OSError):
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
                    process = subprocess.Popen(  # noqa: S603 - this interpreter, our own arguments
                        [sys.executable, "-c", BOOT, json.dumps(task)],
                        stdin=subprocess.DEVNULL,
                        stdout=file,
                        stderr=subprocess.DEVNULL,
                        pass_fds=(self._ranges.descriptor, self.tickets),
                        env=os.environ | {"POLARS_MAX_THREADS": "1"},
                    )
                    opened.pop_all()  # from here on, the file is closed in __exit__
                self._started.append((process, file))
        return self

    def results(self) -> dict[int, RangeResult]:
        """Return the workers' results, after all have ended or the timeout has passed."""
        results = {}
        for process, file in self._started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(WORKER_TIMEOUT_SECONDS)
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
    """Run a worker: take tickets, read their ranges, write the results to standard output."""
    ranges = Ranges(descriptor, start, size, _DIALECTS[dialect], range_bytes)
    with open(sys.stdout.fileno(), "wb", buffering=0, closefd=False) as file:
        for result in _take_and_read(ranges, tickets):
            dump(result, file)


def dump(result: RangeResult, file: IO[bytes]) -> None:
    """Append a result; its lengths come last, so that one that is incomplete has none."""
    start, notes = file.tell(), msgspec.msgpack.encode(result.notes)
    file.write(_LENGTHS.pack(0, 0))
    file.write(notes)
    result.frame.write_ipc_stream(file)
    end = file.tell()
    file.seek(start)
    file.write(_LENGTHS.pack(len(notes), end - start - _LENGTHS.size - len(notes)))
    file.seek(end)


def load(file: IO[bytes]) -> Iterator[RangeResult]:
    while len(lengths := file.read(_LENGTHS.size)) == _LENGTHS.size:
        notes_length, frame_length = _LENGTHS.unpack(lengths)
        notes, frame = file.read(notes_length), file.read(frame_length)
        if not frame or len(frame) < frame_length:
            return
        yield RangeResult(_NOTES.decode(notes), pl.read_ipc_stream(frame))
