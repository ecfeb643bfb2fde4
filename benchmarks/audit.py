"""The audit benchmark: 1,000,000 calls in 190 MB of JSON Lines, 10,000,000 in Parquet.

    python benchmarks/audit.py [--rows N] [--parquet-rows N] [--runs N] [--engines]

Every program is a separate process; the best of several runs counts. For comparison, DuckDB reads
and sums the same file, and a `json.loads` loop reads it. Memory is that of a process and its
children. `--engines` audits the Parquet files on DuckDB and Spark too.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import usage

BYTES_PER_MB = 1_000_000
SAMPLE_SECONDS = 0.02

# The program of each process; its argument is the file's path.
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
AUDIT_PARQUET = (
    "-c",
    "import sys, detectors\n"
    "report = detectors.audit(sys.argv[2], engine=sys.argv[1])\n"
    "print(len(report.to_json()), len(report.findings))",
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
    """One run of a process."""

    seconds: float
    peak_mb: float
    output: bytes


def main() -> None:
    arguments = _parse_arguments()
    console = Console()
    _measure_lines(console, arguments.rows, arguments.runs)
    _measure_parquet(console, arguments.parquet_rows, arguments.engines)


def _measure_lines(console: Console, rows: int, runs: int) -> None:
    file = usage.json_lines(rows)
    size = file.stat().st_size / BYTES_PER_MB
    console.print(f"{rows:,} lines, {size:.0f} MB, {os.cpu_count()} cores")
    table = Table("program", "seconds", "peak MB", "of DuckDB", "lines/s")
    duckdb = best(DUCKDB, file, runs)
    for name, command in (
        ("tallystick audit", AUDIT),
        ("DuckDB, read and sum", DUCKDB),
        ("json.loads loop", JSON_LOADS),
    ):
        run = duckdb if command is DUCKDB else best(command, file, runs)
        _add(table, name, run, rows, f"{run.seconds / duckdb.seconds:.1f} x")
    for fewer in (100_000, 10_000):
        run = best(AUDIT, usage.json_lines(fewer), runs)
        _add(table, f"tallystick audit, {fewer:,} lines", run, fewer)
    console.print(table)
    stages = json.loads(best(STAGES, file, runs).output)
    named = zip(STAGE_NAMES, stages, strict=True)
    console.print("stages: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in named))


def _measure_parquet(console: Console, most: int, has_engines: bool) -> None:
    table = Table("detectors.audit of Parquet", "seconds", "peak MB", "report, findings", "calls/s")
    for rows in (10_000, 100_000, 1_000_000, most):
        _add_parquet(table, rows, "polars")
    for engine in ("duckdb", "pyspark") if has_engines else ():
        _add_parquet(table, min(most, 1_000_000), engine)
    console.print(table)


def _add_parquet(table: Table, rows: int, engine: str) -> None:
    command = (*AUDIT_PARQUET, engine)
    run = min((child(command, usage.parquet(rows), watch=True) for _ in range(2)), key=_seconds)
    size, findings = map(int, run.output.split())
    _add(table, f"{rows:,} calls, {engine}", run, rows, f"{size / 1_000:,.0f} KB, {findings}")


def _seconds(run: Run) -> float:
    return run.seconds


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--parquet-rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engines", action="store_true")
    return parser.parse_args()


def _add(table: Table, name: str, run: Run, rows: int, more: str = "") -> None:
    table.add_row(
        name, f"{run.seconds:.2f}", f"{run.peak_mb:.0f}", more, f"{rows / run.seconds:,.0f}"
    )


def best(command: tuple[str, ...], file: Path, runs: int) -> Run:
    """Return the fastest run, and the memory of another run, because sampling slows a run down."""
    quickest = min((child(command, file) for _ in range(runs)), key=lambda run: run.seconds)
    watched = child(command, file, watch=True)
    return Run(quickest.seconds, watched.peak_mb, quickest.output)


def child(command: tuple[str, ...], file: Path, *, watch: bool = False) -> Run:
    """Run the program; when watching, sample the memory of its process tree."""
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, *command, str(file)], stdout=subprocess.PIPE) as process:
        peak = watch_memory(process.pid) if watch else 0
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.stdout is not None
        output = process.stdout.read()
    if process.returncode != 0:
        raise SystemExit(f"{command[:2]} failed with status {process.returncode}")
    # The kernel's peak is exact but excludes children; it is in kibibytes.
    return Run(seconds, max(peak, usage.ru_maxrss * 1_024) / BYTES_PER_MB, output)


def watch_memory(pid: int) -> int:
    """Return the peak memory of the process and its descendants, until it ends."""
    peak = 0
    while not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        peak = max(peak, _memory(pid))
        time.sleep(SAMPLE_SECONDS)
    return peak


def _memory(pid: int) -> int:
    """Return the memory of the process and its descendants; shared memory counts once."""
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


if __name__ == "__main__":
    main()
