"""The overhead of the client in its host program: per call, at start, in memory, at exit.

Fake model providers answer within the process, so only the libraries' own work adds to the hooks.
Calls with and without the hooks alternate, and the result is the difference of their first
quartiles, in processor time of the calling thread, so that other programs count as little as
possible. Other tools, which cannot be removed again, are measured before and after. All run in the
environment of `requirements/libraries/others/instrumentors.lock`, which is made the first time:

    python -m benchmarks.client [--only TOOL] [--part calls|hooks|memory|start|exit]

A call takes several hundred microseconds in the library, so that what a few add to it varies:
"noise" is the same difference between two copies of the libraries of which neither is hooked.
`--part hooks` measures the hooks alone, around a method that returns at once, and takes the
shortest of many rounds: caches are warm, and other programs hardly matter. `--reference FOLDER`
measures another version of the client in the same rounds, such as the folder `client` of
`git worktree add ../reference <commit>`.

A machine that does other work makes the other figures larger, since it empties the caches.
`--first` asks the scheduler of the system to run the measured programs before all others, as root.
"""

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.running import print_machine
from tests.client.environments import LOCKS, environment_python

ROOT = Path(__file__).parents[2]
PROGRAM, HOOKS = (Path(__file__).parent / name for name in ("rounds.py", "hooks.py"))
OURS, REFERENCE = "tallystick", "reference"
TOOLS = (OURS, "sentry-sdk", "langfuse", "openinference", "traceloop")
# Each process has another memory layout, so that a figure is the median of several.
PROCESSES, PROCESSES_OF_OTHERS = 5, 2
EXITS = 3
SERVERS = ("dead", "refusing", "silent")
FIRST = ("chrt", "--fifo", "10")
Figures = dict[str, float]
Columns = dict[str, Figures]


class Measurement:
    """Runs the programs of the benchmark in one environment."""

    def __init__(self, python: str, *, is_first: bool, reference: str | None) -> None:
        self._command = [*(FIRST if is_first else ()), python, "-W", "ignore"]
        self._reference = reference

    def calls(self, tools: list[str]) -> Columns:
        found: Columns = {}
        for tool in tools:
            count = PROCESSES if tool == OURS else PROCESSES_OF_OTHERS
            more = [self._reference] if self._reference and tool == OURS else []
            runs = [json.loads(self._run("calls", tool, str(n), *more)) for n in range(count)]
            for name in runs[0]:
                found[name] = _median([each[name] for each in runs])
        return found

    def hooks(self) -> Columns:
        """Return what the hooks alone take, of each version in turn."""
        folders = {OURS: str(ROOT / "client"), REFERENCE: self._reference}
        runs: dict[str, list[Figures]] = {name: [] for name, path in folders.items() if path}
        for _ in range(PROCESSES):
            for name, found in runs.items():
                path = f"{folders[name]}{os.pathsep}{ROOT}"
                written = self._run(program=HOOKS, PYTHONPATH=path)
                found.append(json.loads(written))
        return {name: _median(found) for name, found in runs.items()}

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
        return _median([json.loads(self._run(what, tool)) for _ in range(count)])

    def _exit_seconds(self, tool: str, kind: str) -> float:
        """Return how long a program takes from its last line to its end."""
        written = self._run("exit", tool, kind)
        return time.time() - float(written)

    def _run(self, *arguments: str, program: Path = PROGRAM, **variables: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "client"), str(ROOT)]),
            "SERVICE_DSN": "http://ik_x@127.0.0.1:9",
            **variables,
        }
        finished = subprocess.run(
            [*self._command, str(program), *arguments],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        return finished.stdout


def _median(runs: list[Figures]) -> Figures:
    return {name: statistics.median(each[name] for each in runs) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="Python of another environment")
    parser.add_argument("--only", choices=TOOLS, help="measure only this tool")
    parser.add_argument(
        "--part", choices=("calls", "hooks", "memory", "start", "exit"), help="measure only this"
    )
    parser.add_argument("--first", action="store_true", help="run before all other programs")
    parser.add_argument("--reference", help="folder of another version of the client")
    arguments = parser.parse_args()
    python = arguments.python or environment_python(LOCKS / "others" / "instrumentors.lock")
    reference = arguments.reference and str(Path(arguments.reference).resolve())
    measurement = Measurement(python, is_first=arguments.first, reference=reference)
    tools = [arguments.only] if arguments.only else list(TOOLS)
    parts: dict[str, Callable[[], Columns]] = {
        "calls": partial(measurement.calls, tools),
        "hooks": measurement.hooks if OURS in tools else dict,
        "memory": lambda: {tool: measurement.memory(tool) for tool in tools},
        "start": lambda: {tool: measurement.start(tool) for tool in tools},
        "exit": lambda: dict(zip(tools, measurement.exits(tools), strict=True)),
    }
    began = time.monotonic()
    print_machine()
    results: Columns = {}
    for part, make in parts.items():
        for name, figures in make().items() if arguments.part in (None, part) else ():
            results.setdefault(name, {}).update(figures)
    _show(results, time.monotonic() - began)


def _show(results: Columns, seconds: float) -> None:
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
    ("openai_call", "≤ 10", "{:.1f}"),
    ("anthropic_call", "≤ 10", "{:.1f}"),
    ("openai_stream", "≤ 21", "{:.1f}"),
    ("anthropic_stream", "≤ 21", "{:.1f}"),
    ("async_call", "≤ 10", "{:.1f}"),
    ("async_stream", "≤ 21", "{:.1f}"),
    ("hashed_call", "", "{:.1f}"),
    ("openai_call_alone", "", "{:.1f}"),
    ("anthropic_call_alone", "", "{:.1f}"),
    ("openai_stream_alone", "", "{:.1f}"),
    ("anthropic_stream_alone", "", "{:.1f}"),
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
    "openai_call_alone": "hooks alone, µs, OpenAI call",
    "anthropic_call_alone": "hooks alone, µs, Anthropic call",
    "openai_stream_alone": "hooks alone, µs, OpenAI stream",
    "anthropic_stream_alone": "hooks alone, µs, Anthropic stream",
    "import_ms": "import, ms",
    "init_ms": "init(), ms, no library imported",
    "memory_mb": "memory after 10,000 calls, MB",
    "dead": "exit delay, s, server that is not reached",
    "refusing": "exit delay, s, server that refuses",
    "silent": "exit delay, s, server that never answers",
}


if __name__ == "__main__":
    main()
