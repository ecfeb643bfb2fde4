"""The audit of an account: its calls of the last days, over any number of imports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from typing import Any

from detectors.contract import AuditedWindow
from detectors.errors import DetectorError, UnreadableLogError
from service.core.blobs import BlobStore
from service.jobs.transactions import transact
from service.models.calls.call_files import IMPORT, list_live
from service.operations.call_store.compaction import Compaction

# Audits the calls of files in a window of days; the worker passes it.
AuditFiles = Callable[..., AuditedWindow]


class TooManyCallsError(DetectorError):
    """The files have more calls than are audited in memory, and there is no Spark."""

    def __init__(self, days: int, calls: int, most: int) -> None:
        super().__init__(
            f"The last {days} days have up to {calls:,} calls; without Spark, this installation "
            f"audits at most {most:,}. Install 'tallystick-server[spark]' and set SPARK_REMOTE or "
            "SPARK_MASTER, or raise ACCOUNT_POLARS_CALLS."
        )


@dataclass(frozen=True, kw_only=True)
class Auditors:
    """The audits of an account's files: up to a number of calls in memory, above it on Spark."""

    in_memory: AuditFiles
    most_in_memory: int
    on_spark: AuditFiles | None


def audit_account(
    compaction: Compaction, blobs: BlobStore, days: int, auditors: Auditors
) -> AuditedWindow:
    """Merge what is new, and audit the calls of the window, each once."""
    compaction.run(at_once=True)
    files = _find_files(compaction, days)
    keys = [file.blob_key for file in files]
    calls = sum(file.calls for file in files)
    duplicates = sum(file.duplicates for file in files)
    if calls <= auditors.most_in_memory:
        with blobs.local_files(keys, sum(file.bytes for file in files)) as paths:
            return auditors.in_memory(paths, days, duplicates=duplicates)
    if auditors.on_spark is None:
        raise TooManyCallsError(days, calls, auditors.most_in_memory)
    return auditors.on_spark(blobs.urls(keys), days, calls=calls, duplicates=duplicates)


def _find_files(compaction: Compaction, days: int) -> Sequence[Any]:
    """Return the merged files of the window; what was published since waits for the next audit."""
    live = partial(list_live, account_id=compaction.account_id)
    files = [file for file in transact(compaction.engine, live) if file.level > IMPORT]
    if not files:
        raise UnreadableLogError("This account has no calls yet.")
    newest: date = max(file.last_day for file in files)
    return [file for file in files if file.last_day >= newest - timedelta(days=days)]
