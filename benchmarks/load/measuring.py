"""What a batch costs, measured: processor time of each kind of process, and bytes of blobs.

Everything runs on this machine. Processor time hardly depends on what else runs beside it, so the
figures hold on a busy machine too, within a third. A batch's cost is a fixed part and a part for
each call: the line through batches of 50 and of 5,000 calls.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy import Engine, create_engine

from benchmarks.intake.ingest import SETTINGS, new_key
from benchmarks.load.drain import queue, wait_drained
from benchmarks.load.model import Cost
from benchmarks.running import running_service
from service.models.audits.blob_keys import FRAMES, RAW
from service.operations.local.stack import Stack

SMALL, LARGE = 50, 5_000
BATCHES: Final = {SMALL: 1_000, LARGE: 80}
WARM_UP: Final = 40
ROLES: Final = ("web", "worker", "postgres")


def measure() -> dict[str, Cost]:
    """Return the cost of a batch by kind: seconds of processor time, and bytes."""
    with running_service("load", SETTINGS) as stack:
        engine = create_engine(stack.config.database_url)
        key = new_key(engine, mails="none")
        _run(stack, engine, key, SMALL, WARM_UP)
        costs = {calls: _measure_size(stack, engine, key, calls) for calls in BATCHES}
        engine.dispose()
    small, large = costs[SMALL], costs[LARGE]
    return {kind: Cost.between(SMALL, small[kind], LARGE, large[kind]) for kind in sorted(large)}


def _measure_size(stack: Stack, engine: Engine, key: str, calls: int) -> dict[str, float]:
    """Return what each kind of cost came to, per batch of so many calls."""
    batches = BATCHES[calls]
    blobs = stack.data_dir / "blobs"
    before = {folder: _size(blobs / folder) for folder in (RAW, FRAMES)}
    ingest, audit = _run(stack, engine, key, calls, batches)
    found = {
        "web: ingest": ingest["web"],
        "postgresql: ingest": ingest["postgres"],
        "worker: audit": audit["worker"],
        "postgresql: audit": audit["postgres"],
        "bytes: records": float(_size(blobs / RAW) - before[RAW]),
        "bytes: calls, before merging": float(_size(blobs / FRAMES) - before[FRAMES]),
    }
    return {kind: value / batches for kind, value in found.items()}


def _run(
    stack: Stack, engine: Engine, key: str, calls: int, batches: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the processor time of accepting the batches, and of auditing them afterwards.

    The workers are suspended meanwhile instead of stopped, so that their start does not count.
    """
    workers = _processes(stack, "worker")
    for process in workers:
        process.suspend()
    ingest = _spent(stack, lambda: queue(stack.port, key, batches, calls))
    for process in workers:
        process.resume()
    return ingest, _spent(stack, lambda: wait_drained(engine))


def _spent(stack: Stack, work: Callable[[], None]) -> dict[str, float]:
    before = _processor_time(stack)
    work()
    after = _processor_time(stack)
    return {role: after[role] - before[role] for role in ROLES}


def _processor_time(stack: Stack) -> dict[str, float]:
    """Return the seconds that the processes of each role have used, ended children included."""
    seconds: dict[str, float] = dict.fromkeys(ROLES, 0.0)
    for role in ROLES:
        for process in _processes(stack, role):
            spent = process.cpu_times()
            seconds[role] += spent.user + spent.system
            seconds[role] += spent.children_user + spent.children_system
    return seconds


def _processes(stack: Stack, role: str) -> list[psutil.Process]:
    """Return the processes of the programs with such names, parents first."""
    programs = stack.supervisor.programs().items()
    pids = [status.pid for name, status in programs if name.partition("-")[0] == role]
    roots = [psutil.Process(pid) for pid in pids if pid is not None]
    return [one for root in roots for one in (root, *root.children(recursive=True))]


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
