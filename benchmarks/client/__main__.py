"""The overhead of the client in its host program: per call, at start, in memory, at exit.

Fake model providers answer within the process, so only the libraries' own work adds to the hooks.
Calls with and without the hooks alternate, and the result is the difference of their first
quartiles, in processor time of the calling thread, so that other programs count as little as
possible. Other tools, which cannot be removed again, are measured before and after. All run in the
environment of `requirements/libraries/others/instrumentors.lock`, which is made the first time:

    python -m benchmarks.client [--only TOOL] [--part calls|memory|start|exit]

A machine that does other work makes every figure larger, since it empties the caches. `--first`
asks the scheduler of the system to run the measured programs before all others, as root.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections import ChainMap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.client.environments import LOCKS, environment_python

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "rounds.py"
OURS = "tallystick"
TOOLS = (OURS, "sentry-sdk", "langfuse", "openinference", "traceloop")
# Each process has another memory layout, so that a figure is the median of several.
PROCESSES, PROCESSES_OF_OTHERS = 5, 2
EXITS = 3
SERVERS = ("dead", "refusing", "silent")
FIRST = ("chrt", "--fifo", "10")
Figures = dict[str, float]


class Measurement:
    """Runs the programs of the benchmark in one environment."""

    def __init__(self, python: str, *, is_first: bool) -> None:
        self._command = [*(FIRST if is_first else ()), python, "-W", "ignore", str(PROGRAM)]

    def calls(self, tool: str) -> Figures:
        return self._median_of("calls", tool)

    def memory(self, tool: str) -> Figures:
        """Return what the client adds; other tools keep what their exporters queue."""
        figures: Figures = json.loads(self._run("memory", tool)) if tool == OURS else {}
        return figures

    def start(self, tool: str) -> Figures:
        return self._median_of("start", tool)

    def exits(self, tools: list[str]) -> list[Figures]:
        """Return how much longer a program takes to exit with each tool.

        Programs with other tools wait for many seconds, and so all at the same time.
        """
        usual = statistics.median(self._exit_seconds("nothing", kind) for kind in SERVERS)
        seconds: dict[tuple[str, str], float] = {}
        for kind in SERVERS if OURS in tools else ():
            tries = [self._exit_seconds(OURS, kind) for _ in range(EXITS)]
            seconds[OURS, kind] = statistics.median(tries)
        others = [pair for pair in product(tools, SERVERS) if pair[0] != OURS]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(lambda pair: self._exit_seconds(*pair), others)
            seconds.update(zip(others, found, strict=True))
        return [{kind: seconds[tool, kind] - usual for kind in SERVERS} for tool in tools]

    def _median_of(self, what: str, tool: str) -> Figures:
        count = PROCESSES if tool == OURS else PROCESSES_OF_OTHERS
        runs = [json.loads(self._run(what, tool)) for _ in range(count)]
        return {name: statistics.median(each[name] for each in runs) for name in runs[0]}

    def _exit_seconds(self, tool: str, kind: str) -> float:
        """Return how long a program takes from its last line to its end."""
        written = self._run("exit", tool, kind)
        return time.time() - float(written)

    def _run(self, *arguments: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "client"), str(ROOT)]),
            "SERVICE_DSN": "http://ik_x@127.0.0.1:9",
        }
        finished = subprocess.run(
            [*self._command, *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        return finished.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="Python of another environment")
    parser.add_argument("--only", choices=TOOLS, help="measure only this tool")
    parser.add_argument(
        "--part", choices=("calls", "memory", "start", "exit"), help="measure only this"
    )
    parser.add_argument("--first", action="store_true", help="run before all other programs")
    arguments = parser.parse_args()
    python = arguments.python or environment_python(LOCKS / "others" / "instrumentors.lock")
    measurement = Measurement(python, is_first=arguments.first)
    tools = [arguments.only] if arguments.only else list(TOOLS)
    parts: dict[str, Callable[[], list[Figures]]] = {
        "calls": lambda: [*map(measurement.calls, tools)],
        "memory": lambda: [*map(measurement.memory, tools)],
        "start": lambda: [*map(measurement.start, tools)],
        "exit": partial(measurement.exits, tools),
    }
    began = time.monotonic()
    found = [make() for part, make in parts.items() if arguments.part in (None, part)]
    results = [dict(ChainMap(*each)) for each in zip(*found, strict=True)]
    _show(dict(zip(tools, results, strict=True)), time.monotonic() - began)


def _show(results: dict[str, Figures], seconds: float) -> None:
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    table = Table(title=f"{load}, measured in {seconds:.0f} s")
    for heading in ("", "bar", *results):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, bar, pattern in ROWS:
        cells = [pattern.format(each[name]) if name in each else "–" for each in results.values()]
        if set(cells) != {"–"}:
            table.add_row(DESCRIPTIONS[name], bar, *cells)
    Console(width=120).print(table)


ROWS = (
    ("openai_call", "≤ 20", "{:.1f}"),
    ("anthropic_call", "≤ 20", "{:.1f}"),
    ("openai_stream", "≤ 20", "{:.1f}"),
    ("anthropic_stream", "≤ 20", "{:.1f}"),
    ("async_call", "≤ 20", "{:.1f}"),
    ("async_stream", "≤ 20", "{:.1f}"),
    ("hashed_call", "", "{:.1f}"),
    ("import_ms", "", "{:.1f}"),
    ("init_ms", "≤ 20", "{:.1f}"),
    ("memory_mb", "≤ 2", "{:.2f}"),
    ("dead", "≤ 0.25", "{:.3f}"),
    ("refusing", "≤ 0.25", "{:.3f}"),
    ("silent", "≤ 0.25", "{:.3f}"),
)
DESCRIPTIONS = {
    "openai_call": "added µs, OpenAI call",
    "anthropic_call": "added µs, Anthropic call",
    "openai_stream": "added µs, OpenAI stream of 21 chunks",
    "anthropic_stream": "added µs, Anthropic stream of 22 events",
    "async_call": "added µs, asynchronous OpenAI call",
    "async_stream": "added µs, asynchronous OpenAI stream",
    "hashed_call": "added µs, OpenAI call with prefix_hash",
    "import_ms": "import, ms",
    "init_ms": "init(), ms, no library imported",
    "memory_mb": "memory after 10,000 calls, MB",
    "dead": "exit delay, s, server that is not reached",
    "refusing": "exit delay, s, server that refuses",
    "silent": "exit delay, s, server that never answers",
}


if __name__ == "__main__":
    main()
