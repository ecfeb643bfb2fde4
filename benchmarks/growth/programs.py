"""The programs that read the same log, each a process of its own, and their times per call."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks import usage
from benchmarks.running import DUCKDB, TooLongError, child
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


@dataclass(frozen=True)
class Row:
    """The microseconds per call of each program in a log of so many calls.

    A program that was stopped at the limit has None, and is not in larger logs.
    """

    calls: int
    microseconds: dict[str, float | None]

    def times_duckdb(self, program: str) -> float | None:
        own, duckdb = self.microseconds.get(program), self.microseconds[READ]
        return None if own is None or not duckdb else own / duckdb


def commands() -> dict[str, tuple[str, ...]]:
    return {
        AUDIT: ("-m", "detectors", "audit"),
        READ: DUCKDB,
        LOOP: ("-c", _LOOP, json.dumps(_rates())),
        PANDAS: ("-m", "benchmarks.growth.six_rules_in_pandas"),
    }


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
            row = Row(calls, _time(log, calls, runs, limit_seconds, late))
        late |= {program for program, taken in row.microseconds.items() if taken is None}
        yield row


def _time(
    log: Path, calls: int, runs: int, limit_seconds: float, late: set[str]
) -> dict[str, float | None]:
    """Return the best of some runs of each program; the programs take turns."""
    running = {name: command for name, command in commands().items() if name not in late}
    times: dict[str, list[float]] = {name: [] for name in running}
    for _ in range(runs):
        for name, command in [*running.items()]:
            try:
                times[name].append(child(command, log, limit_seconds=limit_seconds).seconds)
            except TooLongError:
                del running[name]
    return {
        name: min(taken) / calls * MICROSECONDS if taken else None for name, taken in times.items()
    }
