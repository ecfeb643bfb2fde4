"""Measures compaction, account audits, DuckDB on the same files, and the cost of publishing."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import takewhile
from pathlib import Path
from typing import IO, Any, Final
from unittest.mock import patch
from urllib.parse import unquote, urlsplit

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

import worker
from benchmarks.account.store import list_keys
from benchmarks.account.traffic import calls_of_day, first_day
from benchmarks.running import Run, watch_memory
from detectors.contract import UsageRecordV2
from detectors.formats import encode_records
from service.core.blobs import BlobStore
from service.jobs.claiming import Tools
from service.jobs.queues import AuditQueues
from service.models import Audit
from service.models.calls.account_audits import queue_account_audit
from service.operations.local.stack import Stack

# Workers are ready before a job comes, so each program says that it is before it is measured.
_WORKER: Final = """
import sys, worker
worker.prepare()
worker.warm_up()
print("ready", flush=True)
worker.{}(sys.stdin.read().strip())
print("done", flush=True)
"""
COMPACT: Final = ("-c", _WORKER.format("compact_calls"))
AUDIT: Final = ("-c", _WORKER.format("run_audit"))
_DUCKDB: Final = """
import duckdb, sys
connection = duckdb.connect()
print("ready", flush=True)
files = sys.stdin.read().split()
connection.read_parquet(files, union_by_name=True).query("calls", '''SELECT {} count(*),
sum(prompt_tokens), sum(completion_tokens), sum(cached_tokens) {}
FROM calls GROUP BY ALL''').fetchall()
print("done", flush=True)
"""
# The labels and counts that `benchmarks/audit.py` sums, and every column that spend depends on.
DUCKDB: Final = ("-c", _DUCKDB.format("model, tag,", ""))
_LABELS: Final = "ts::date, tag, endpoint, provider, model, environment, service_tier,"
DUCKDB_SPEND: Final = ("-c", _DUCKDB.format(_LABELS, ", sum(cache_write_tokens)"))
# DuckDB decodes a text only if its value is used.
_ALL: Final = ", max(request_id), max(prefix_hash), sum(declared_max_tokens), sum(latency_ms)"
DUCKDB_ALL: Final = ("-c", _DUCKDB.format(_LABELS, f", sum(cache_write_tokens) {_ALL}"))
_BATCH_CALLS: Final = 230
_PASSED_ON: Final = ("PATH", "HOME", "TMPDIR", "SPARK_CONF_DIR")


def environment_of(stack: Stack, **more: str) -> dict[str, str]:
    """Return the environment of the service's own programs."""
    config = stack.config
    own = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return own | {
        "SECRET_KEY": config.secret_key,
        "DATABASE_URL": config.database_url,
        "REDIS_URL": config.redis_url,
        "STORAGE_URL": config.storage_url,
        "LOG_LEVEL": "WARNING",
        **more,
    }


def run(
    command: Sequence[str],
    *given: object,
    env: Mapping[str, str],
    has_children: bool = False,
) -> Run:
    """Run a program in a process of its own; return its time once it is ready, and peak memory.

    It reads what is given from its standard input. The memory of its children is watched only for
    `has_children`, because that slows a run down by half.
    """
    with subprocess.Popen(
        [sys.executable, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(env),
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        _read_until(b"ready\n", process.stdout)
        began = time.perf_counter()
        with suppress(BrokenPipeError):  # a program that failed says so by its status
            process.stdin.write("\n".join(map(str, given)).encode())
            process.stdin.close()
        peak = watch_memory(process.pid) if has_children else 0
        output = _read_until(b"done\n", process.stdout)
        seconds = time.perf_counter() - began
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command[:2]} failed with status {process.returncode}")
    peak_mb = max(peak, used.ru_maxrss * 1024) / 1e6
    return Run(seconds, used.ru_utime + used.ru_stime, peak_mb, output)


def _read_until(line: bytes, output: IO[bytes]) -> bytes:
    """Return the program's lines before this one, or up to its end."""
    return b"".join(takewhile(line.__ne__, output))


def audit_account(engine: Engine, account_id: str, env: Mapping[str, str]) -> tuple[Run, Audit]:
    """Audit the account's 30 days as a worker does; return the audit too."""
    with engine.begin() as connection:
        audit_id = queue_account_audit(connection, account_id, 30)
    assert audit_id is not None
    measured = run(AUDIT, audit_id, env=env, has_children="SPARK_MASTER" in env)
    with Session(engine, expire_on_commit=False) as session:
        audit = session.get_one(Audit, audit_id)
    if audit.status != "done":
        raise SystemExit(f"the account's audit is {audit.status}: {audit.error}")
    return measured, audit


def local_files(stack: Stack, engine: Engine, account_id: str) -> list[Path]:
    """Return the paths of the account's live files."""
    folder = Path(unquote(urlsplit(stack.config.storage_url).path))
    return [folder / key for key in list_keys(engine, account_id)]


def measure_publishing(stack: Stack, engine: Engine, account_id: str, batches: int) -> float:
    """Return how much longer audits of batches take because their calls are stored, in percent."""
    blobs = BlobStore.from_url(stack.config.storage_url)
    tools = Tools(stack.config, engine, blobs, AuditQueues.from_config(stack.config))
    spent = [0.0]
    names = ("detectors.report.account.imports.sum_spend", "service.operations.publishing.{}")
    timed = [names[0], *(names[1].format(name) for name in ("add_imports", "note_imports"))]
    with patch.object(Tools, "_kept", tools), _timing(timed, spent):
        _audit_batches(engine, blobs, account_id, 40)  # the first audits import and plan
        spent[0] = 0.0
        began = time.perf_counter()
        _audit_batches(engine, blobs, account_id, batches)
        total = time.perf_counter() - began
    return 100 * spent[0] / (total - spent[0])


@contextmanager
def _timing(names: Sequence[str], spent: list[float]) -> Iterator[None]:
    """Add the seconds of these functions to `spent`."""
    if not names:
        yield
        return
    module, name = names[0].rsplit(".", 1)
    function = getattr(sys.modules[module], name)

    @wraps(function)
    def timed(*arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            spent[0] += time.perf_counter() - began

    with patch(names[0], timed), _timing(names[1:], spent):
        yield


def _audit_batches(engine: Engine, blobs: BlobStore, account_id: str, batches: int) -> None:
    bodies = _batches(batches)
    with Session(engine) as session:
        for number in range(batches):
            audit = Audit(account_id=account_id, source="ingest", blob_key="", records=_BATCH_CALLS)
            session.add(audit)
            session.flush()
            audit.blob_key = f"raw/{audit.id}.jsonl"
            blobs.put(audit.blob_key, bodies[number])
        session.commit()
    waiting = select(Audit.id).where(Audit.account_id == account_id, Audit.status == "queued")
    while True:
        with engine.connect() as connection:
            audit_id = connection.scalar(waiting.limit(1))
        if audit_id is None:
            return
        worker.run_audit(audit_id)


def _batches(batches: int) -> list[bytes]:
    """Return batches of a minute each, as one service sends them."""
    day = calls_of_day(0, batches * _BATCH_CALLS, batches, first_day())
    records = [
        UsageRecordV2(**{name: value for name, value in row.items() if value not in ("", None)})
        for row in day.iter_rows(named=True)
    ]
    starts = range(0, len(records), _BATCH_CALLS)
    return [encode_records(records[start : start + _BATCH_CALLS]) for start in starts]
