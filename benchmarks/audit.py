"""The audit bar of the design: 1,000,000 calls in 190 MB of JSON Lines, the whole process.

    python benchmarks/audit.py [--rows N] [--runs N]

Every program is a child of its own; the best of several runs counts. Beside the audit stand the
same file read and summed by DuckDB, and a bare `json.loads` loop over it. The file is generated
once and kept in the system's temporary folder. Memory is that of a process and its children.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

ROUTES = 40
MODELS = (
    "gpt-5.4-mini",
    "gpt-5.4",
    "gpt-5-nano",
    "gpt-4.1",
    "gpt-4o-mini",
    "gpt-5.6-terra",
    "gpt-5-mini",
    "gpt-4.1-mini",
)
START = 1_790_000_000
SPAN_SECONDS = 14 * 86_400
FOLDER = Path(tempfile.gettempdir()) / "tallystick-benchmarks"
BYTES_PER_MB = 1_000_000
SAMPLE_SECONDS = 0.02

# What each child runs; the file's path is its argument.
AUDIT = ("-m", "detectors", "audit")
DUCKDB = (
    "-c",
    "import duckdb, sys\n"
    'duckdb.sql(f"""SELECT model, tag, count(*), sum(usage.prompt_tokens),\n'
    "sum(usage.completion_tokens), sum(usage.prompt_tokens_details.cached_tokens)\n"
    "FROM read_json('{sys.argv[1]}', format='newline_delimited') GROUP BY ALL\"\"\").fetchall()",
)
JSON_LOADS = (
    "-c",
    "import json, sys\n"
    "total = 0\n"
    "with open(sys.argv[1], 'rb') as file:\n"
    "    for line in file:\n"
    "        total += json.loads(line)['usage']['prompt_tokens']",
)
STAGES = (
    "-c",
    "import json, sys, time\n"
    "marks = [time.perf_counter()]\n"
    "def mark(): marks.append(time.perf_counter())\n"
    "import detectors.report, detectors.frames; mark()\n"
    "log = detectors.read(sys.argv[1]); mark()\n"
    "report = detectors.audit(log); mark()\n"
    "report.to_json(); mark()\n"
    "print(json.dumps([late - early for early, late in zip(marks, marks[1:])]))",
)
STAGE_NAMES = ("import", "read", "audit", "write")


@dataclass(frozen=True)
class Run:
    """One child from start to end."""

    seconds: float
    peak_mb: float
    output: bytes


def main() -> None:
    arguments = _parse_arguments()
    console = Console()
    file = usage_file(arguments.rows)
    size = file.stat().st_size / BYTES_PER_MB
    console.print(f"{arguments.rows:,} lines, {size:.0f} MB, {os.cpu_count()} cores")
    table = Table("program", "seconds", "peak MB", "of DuckDB", "lines/s")
    duckdb = best(DUCKDB, file, arguments.runs)
    for name, command in (
        ("tallystick audit", AUDIT),
        ("DuckDB, read and sum", DUCKDB),
        ("json.loads loop", JSON_LOADS),
    ):
        run = duckdb if command is DUCKDB else best(command, file, arguments.runs)
        _add(table, name, run, duckdb, arguments.rows)
    for rows in (100_000, 10_000):
        smaller = usage_file(rows)
        run = best(AUDIT, smaller, arguments.runs)
        _add(table, f"tallystick audit, {rows:,} lines", run, None, rows)
    console.print(table)
    stages = json.loads(best(STAGES, file, arguments.runs).output)
    named = zip(STAGE_NAMES, stages, strict=True)
    console.print("stages: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in named))


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args()


def _add(table: Table, name: str, run: Run, duckdb: Run | None, rows: int) -> None:
    table.add_row(
        name,
        f"{run.seconds:.2f}",
        f"{run.peak_mb:.0f}",
        f"{run.seconds / duckdb.seconds:.1f} x" if duckdb else "",
        f"{rows / run.seconds:,.0f}",
    )


def best(command: tuple[str, ...], file: Path, runs: int) -> Run:
    """The quickest of the runs, with the memory of one more: looking at memory slows a run down."""
    quickest = min((child(command, file) for _ in range(runs)), key=lambda run: run.seconds)
    watched = child(command, file, watch=True)
    return Run(quickest.seconds, watched.peak_mb, quickest.output)


def child(command: tuple[str, ...], file: Path, *, watch: bool = False) -> Run:
    """Run it to its end; when watching, look again and again at what its family holds."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *command, str(file)], stdout=subprocess.PIPE) as process:
        peak = _watch(process.pid) if watch else 0
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode != 0:
        raise SystemExit(f"{command[:2]} failed with status {process.returncode}")
    # The kernel's own figure misses nothing, but knows of no children; it counts in kibibytes.
    return Run(seconds, max(peak, usage.ru_maxrss * 1_024) / BYTES_PER_MB, output)


def _watch(pid: int) -> int:
    """The most that the process and its descendants held, until it ends (and is not yet reaped)."""
    peak = 0
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        peak = max(peak, _memory(pid))
        time.sleep(SAMPLE_SECONDS)
    return peak


def _memory(pid: int) -> int:
    """Bytes held by the process and its descendants; what they share counts once."""
    try:
        family = [(head := psutil.Process(pid)), *head.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(_share_of_memory(process) for process in family)


def _share_of_memory(process: psutil.Process) -> int:
    try:
        memory = process.memory_full_info()
    except psutil.Error:
        return 0
    return int(getattr(memory, "pss", memory.rss))


def usage_file(rows: int) -> Path:
    """The log of so many lines, generated where it is not there yet."""
    file = FOLDER / f"usage-{_generator_version()}-{rows}.jsonl"
    if not file.exists():
        FOLDER.mkdir(exist_ok=True)
        unfinished = file.with_suffix(".part")
        with unfinished.open("w") as out:
            out.writelines(lines(rows))
        unfinished.rename(file)
    return file


def _generator_version() -> str:
    """Changes with this script, so that no file of an older one is taken."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def lines(rows: int) -> Iterator[str]:
    """Calls of 40 routes in time order; each route has its model and its habits."""
    rng = random.Random(rows)
    hashes = [hashlib.sha256(str(route).encode()).hexdigest() for route in range(ROUTES)]
    for row in range(rows):
        route = int(rng.random() ** 2 * ROUTES)
        prompt = int((400 + 150 * route) * (0.5 + rng.random()))
        completion = int((20 + 17 * (route % 23)) * (0.5 + rng.random()))
        cached = f"{prompt // 2}" if route % 3 == 0 else "0"
        cap = f',"declared_max_tokens":{256 << route % 5}' if route % 4 == 1 else ""
        prefix = f',"prefix_hash":"{hashes[route]}"' if route % 20 == 5 else ""
        yield (
            f'{{"id":"chatcmpl-{row:08}","created":{START + row * SPAN_SECONDS // rows},'
            f'"model":"{MODELS[route % len(MODELS)]}",'
            f'"usage":{{"prompt_tokens":{prompt},"completion_tokens":{completion},'
            f'"prompt_tokens_details":{{"cached_tokens":{cached}}}}},'
            f'"tag":"route-{route:02}"{cap}{prefix}}}\n'
        )


if __name__ == "__main__":
    main()
