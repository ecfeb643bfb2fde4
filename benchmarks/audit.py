"""The audit benchmark: 1,000,000 calls in 190 MB of JSON Lines, 10,000,000 in Parquet.

    python benchmarks/audit.py [--rows N] [--parquet-rows N] [--runs N] [--engines]

Every program is a separate process; the best of several runs counts. For comparison, DuckDB reads
and sums the same file, and a `json.loads` loop reads it. DuckDB reads the Parquet files twice:
only the columns that it sums and groups by, and every column. Memory is that of a process and its
children. `--engines` audits the Parquet files on DuckDB and Spark too, on Spark several
times in one session.
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import usage
from benchmarks.running import BYTES_PER_MB, DUCKDB, Run, best, print_machine

# The program of each process; its argument is the file's path.
AUDIT = ("-m", "detectors", "audit")
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
# DuckDB decodes a text only if its value is used, so each column is grouped by, summed or compared.
_DUCKDB_PARQUET = (
    "import duckdb, sys\n"
    'duckdb.sql(f"""SELECT {columns} count(*), sum(prompt_tokens), sum(completion_tokens),\n'
    "sum(cached_tokens) {more}\n"
    'FROM read_parquet(\'{{sys.argv[1]}}\') GROUP BY ALL""").fetchall()'
)
DUCKDB_SUMS = ("-c", _DUCKDB_PARQUET.format(columns="model, tag,", more=""))
DUCKDB_ALL = (
    "-c",
    _DUCKDB_PARQUET.format(
        columns="ts::date, provider, model, tag,",
        more=", max(request_id), max(prefix_hash), sum(declared_max_tokens)",
    ),
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
# Several audits in one session of Spark; the processor time is that of Java and Python.
SPARK = (
    "-c",
    "import json, sys, time, psutil, detectors\n"
    "def used():\n"
    "    own = psutil.Process()\n"
    "    return sum(sum(p.cpu_times()[:2]) for p in (own, *own.children(recursive=True)))\n"
    "for _ in range(4):\n"
    "    began, before = time.perf_counter(), used()\n"
    "    detectors.audit(sys.argv[1], engine='pyspark')\n"
    "    print(json.dumps([time.perf_counter() - began, used() - before]))",
)
_PARQUET_RUNS = 2


def main() -> None:
    arguments = _parse_arguments()
    console = Console()
    print_machine()
    _measure_lines(console, arguments.rows, arguments.runs)
    _measure_parquet(console, arguments.parquet_rows, arguments.engines)


def _measure_lines(console: Console, rows: int, runs: int) -> None:
    file = usage.json_lines(rows)
    size = file.stat().st_size / BYTES_PER_MB
    console.print(f"{rows:,} lines, {size:.0f} MB")
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
    table = Table("Parquet", "calls", "seconds", "peak MB", "of DuckDB, every column", "calls/s")
    for rows in (10_000, 100_000, 1_000_000, most):
        duckdb = _best(DUCKDB_ALL, rows)
        _add_parquet(table, "detectors.audit", rows, _audit(rows, "polars"), duckdb)
        _add_parquet(table, "DuckDB, every column", rows, duckdb, duckdb)
        sums = _best(DUCKDB_SUMS, rows)
        _add_parquet(table, "DuckDB, what it sums by model and tag", rows, sums, duckdb)
    _add_parquet(table, "tallystick audit", most, _best(AUDIT, most), duckdb)
    for engine in ("duckdb", "pyspark") if has_engines else ():
        rows = min(most, 1_000_000)
        duckdb = _best(DUCKDB_ALL, rows)
        _add_parquet(table, f"detectors.audit, {engine}", rows, _audit(rows, engine), duckdb)
    console.print(table)
    if has_engines:
        run = best(SPARK, usage.parquet(rows), 1)
        audits = [json.loads(line) for line in run.output.splitlines()]
        named = (f"{wall:.1f} s ({processor:.1f} of processors)" for wall, processor in audits)
        console.print("audits of one Spark session, the first with its start: " + ", ".join(named))


def _audit(rows: int, engine: str) -> Run:
    return _best((*AUDIT_PARQUET, engine), rows)


def _best(command: tuple[str, ...], rows: int) -> Run:
    return best(command, usage.parquet(rows), _PARQUET_RUNS)


def _add_parquet(table: Table, name: str, rows: int, run: Run, duckdb: Run) -> None:
    ratio = f"{run.seconds / duckdb.seconds:.1f} x"
    figures = f"{run.seconds:.2f}", f"{run.peak_mb:.0f}", ratio, f"{rows / run.seconds:,.0f}"
    table.add_row(name, f"{rows:,}", *figures)


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


if __name__ == "__main__":
    main()
