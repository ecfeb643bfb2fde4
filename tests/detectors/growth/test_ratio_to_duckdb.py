"""An audit costs a small multiple of what DuckDB takes to read the same file."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks import usage
from benchmarks.running import DUCKDB

AUDIT: Final = ("-m", "detectors", "audit")
CALLS: Final = 20_000
ROUNDS: Final = 3
# Twice the goal for 1,000,000 calls, 4 times DuckDB. An audit of so few takes 2.1 to 2.5 times the
# processor time of DuckDB's read; most of both is the start of a process. Reading the log twice
# would not reach 8; work that grows faster than the log would, or the start of Spark.
MOST_TIMES: Final = 8.0


def _processor_seconds(command: tuple[str, ...], log: Path) -> float:
    with subprocess.Popen(
        [sys.executable, *command, str(log)], stdout=subprocess.DEVNULL
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_utime + used.ru_stime


def test_an_audit_costs_a_small_multiple_of_a_read(tmp_path: Path) -> None:
    log = tmp_path / "usage.jsonl"
    log.write_text("".join(usage.lines(CALLS)))
    audits, reads = [], []
    # Other programs can only add to either, so the best of a few runs counts, usually the first.
    for _ in range(ROUNDS):
        audits.append(_processor_seconds(AUDIT, log))
        reads.append(_processor_seconds(DUCKDB, log))
        if min(audits) <= MOST_TIMES * min(reads):
            return
    raise AssertionError(f"audits took {audits}, reads {reads} seconds of processor time")
