"""The programs that read the same log, each a process of its own, and their times per call."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import psutil

from benchmarks import usage
from benchmarks.running import DUCKDB, FailedError, TooLongError, child
from detectors.prices.book import PriceBook

MICROSECONDS: Final = 1_000_000
AUDIT: Final = "tallystick audit"
READ: Final = "DuckDB, read and sum"
LOOP: Final = "json.loads loop"
PANDAS: Final = "six rules in pandas"
# Sums tokens and prices of calls as a short script would; its arguments are the rates and the log.
_LOOP: Final = """
import json, sys
rates = json.loads(sys.argv[1])
tokens = dollars = 0
with open(sys.argv[2], "rb") as log:
    for line in log:
        call = json.loads(line)
        usage = call["usage"]
        prompt, completion = usage["prompt_tokens"], usage["completion_tokens"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        fresh, read, written = rates[call["model"]]
        tokens += prompt + completion
        dollars += (prompt - cached) * fresh + cached * read + completion * written
"""

# pandas holds the whole log, and the system must not have to kill programs.
_PANDAS: Final = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
status = int(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
try:
    runpy.run_module("benchmarks.growth.six_rules_in_pandas", run_name="__main__")
except MemoryError:
    sys.exit(status)
"""
_OUT_OF_MEMORY: Final = 77  # a status that nothing else has
_MEMORY_SHARE: Final = 0.7


@dataclass(frozen=True)
class Row:
    """The microseconds per call of each program in a log of so many calls.

    `stopped` says why a program has none; it is not run on larger logs.
    """

    calls: int
    microseconds: dict[str, float]
    stopped: dict[str, str] = field(default_factory=dict)

    def times_duckdb(self, program: str) -> float | None:
        own, duckdb = self.microseconds.get(program), self.microseconds.get(READ)
        return None if own is None or not duckdb else own / duckdb


def commands() -> dict[str, tuple[str, ...]]:
    return {
        AUDIT: ("-m", "detectors", "audit"),
        READ: DUCKDB,
        LOOP: ("-c", _LOOP, json.dumps(_rates())),
        PANDAS: ("-c", _PANDAS, str(_most_bytes()), str(_OUT_OF_MEMORY)),
    }


def _most_bytes() -> int:
    return int(psutil.virtual_memory().total * _MEMORY_SHARE)


def _rates() -> dict[str, tuple[float, float, float]]:
    """Return each model's US dollars per token of input, of cache reads and of output."""
    book, first = PriceBook(), datetime.fromtimestamp(usage.START, UTC)
    rates = {}
    for model in usage.MODELS:
        listing = book.find_listing("openai", model)
        found = listing and listing.find_rates(first, 0)
        assert found, f"the price book has no rates of {model}"
        rates[model] = (found.input_usd, found.cache_read_usd, found.output_usd)
    return rates


def measure(sizes: Sequence[int], runs: int, limit_seconds: float) -> Iterator[Row]:
    """Measure every program on a log of each size; a log is deleted before the next is written."""
    late: set[str] = set()
    for calls in sorted(sizes):
        with tempfile.TemporaryDirectory(prefix="tallystick-growth-") as folder:
            log = Path(folder) / "usage.jsonl"
            with log.open("w") as out:
                out.writelines(usage.lines(calls))
            row = _time(log, calls, runs, limit_seconds, late)
        late |= {*row.stopped}
        yield row


def _time(log: Path, calls: int, runs: int, limit_seconds: float, late: set[str]) -> Row:
    """Take the best of some runs of each program that isn't late; the programs take turns."""
    running = {name: command for name, command in commands().items() if name not in late}
    times: dict[str, list[float]] = {name: [] for name in running}
    stopped: dict[str, str] = {}
    for _ in range(runs):
        for name, command in [*running.items()]:
            try:
                times[name].append(child(command, log, limit_seconds=limit_seconds).seconds)
            except TooLongError:
                stopped[name] = f"over {limit_seconds:g} s"
            except FailedError as error:
                if error.status != _OUT_OF_MEMORY:
                    raise
                stopped[name] = "out of memory"
        for name in stopped:
            running.pop(name, None)
    best = {name: min(taken) / calls * MICROSECONDS for name, taken in times.items() if taken}
    return Row(calls, best, {name: why for name, why in stopped.items() if name not in best})
