"""The overhead of the client in its host program: per call, at start, in memory, at exit.

Fake model providers answer within the process, so only the libraries' own work adds to the hooks.
Calls with and without the hooks alternate, and the result is the difference of their medians, in
processor time of the calling thread, so that other programs do not count. Other tools, which cannot
be removed again, are measured before and after, if they are installed:

    python -m benchmarks.client [--python OTHER_ENVIRONMENT/bin/python]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "rounds.py"
TOOLS = {
    "tallystick": ("", "≤ 20"),
    "sentry-sdk": ("sentry_sdk", ""),
    "langfuse": ("langfuse", ""),
    "openinference": ("openinference.instrumentation.openai", ""),
}
PROCESSES = 5
EXITS = 3


def run(python: str, *arguments: str, dsn: str) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "client"), str(ROOT)]),
        "SERVICE_DSN": dsn,
    }
    command = [python, "-W", "ignore", str(PROGRAM), *arguments]
    finished = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, cwd=ROOT
    )
    return finished.stdout


def measure(python: str, tool: str) -> dict[str, float] | None:
    """Return None if the tool is not installed."""
    needed = TOOLS[tool][0]
    found = subprocess.run([python, "-c", f"import {needed or 'sys'}"], capture_output=True)
    if found.returncode:
        return None
    exits = {kind: exit_seconds(python, tool, kind) for kind in ("dead", "refusing", "silent")}
    return {**median_of(python, "calls", tool), **median_of(python, "start", tool), **exits}


def median_of(python: str, what: str, tool: str) -> dict[str, float]:
    """Return the median over processes, because each has another memory layout."""
    runs = [
        json.loads(run(python, what, tool, dsn="http://ik_x@127.0.0.1:9")) for _ in range(PROCESSES)
    ]
    return {name: statistics.median(one[name] for one in runs) for name in runs[0]}


def exit_seconds(python: str, tool: str, kind: str) -> float:
    """Return how much longer a program takes to exit with the tool, as a median."""

    def once(name: str) -> float:
        written = run(python, "exit", name, kind, dsn="set by the program")
        return time.time() - float(written)

    pairs = [(once(tool), once("nothing")) for _ in range(EXITS)]
    return statistics.median(one - other for one, other in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="Python of another environment")
    parser.add_argument("--only", choices=TOOLS, help="measure only this tool")
    arguments = parser.parse_args()
    table = Table(title=f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for heading in ("", "bar", *([arguments.only] if arguments.only else TOOLS)):
        table.add_column(heading, justify="left" if not heading else "right")
    tools = [arguments.only] if arguments.only else list(TOOLS)
    results = {tool: measure(arguments.python, tool) for tool in tools}
    for name, bar, pattern in ROWS:
        cells = [
            pattern.format(result[name]) if result and name in result else "–"
            for result in results.values()
        ]
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
