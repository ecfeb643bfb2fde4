"""The audit of an account: its calls of the last days, over any number of imports."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from detectors.contract import AuditedWindow, CallWindow
from detectors.errors import UnreadableLogError
from service.core.blobs import BlobStore
from service.jobs.transactions import transact
from service.models.calls.call_files import IMPORT, list_live
from service.operations.call_store.compaction import Compaction

# Audits the calls of files in a window of days; the worker passes it.
AuditFiles = Callable[..., AuditedWindow]


@dataclass(frozen=True, kw_only=True)
class Auditors:
    """The audits of an account's files: on this machine, in parts where they don't fit into memory.

    With Spark, those with more than `most_here` calls run there.
    """

    here: AuditFiles
    most_here: int
    on_spark: AuditFiles | None


def audit_account(
    compaction: Compaction, blobs: BlobStore, days: int, auditors: Auditors, *, now: datetime
) -> AuditedWindow:
    """Merge what is new, and audit the calls of the window that ends with the newest up to now.

    What is published after the merge waits for the next audit.
    """
    compaction.run(at_once=True)
    last = CallWindow(days=days, now=now).until.date()
    live = transact(compaction.engine, partial(list_live, account_id=compaction.account_id))
    merged = [file for file in live if file.level > IMPORT]
    if not merged:
        raise UnreadableLogError("This account has no calls yet.")
    # The calls of the last day may all be in the future. The newest others are not older than:
    days_before = (
        file.last_day if file.last_day < last else file.first_day
        for file in merged
        if file.first_day < last
    )
    first = max(days_before, default=last) - timedelta(days=days)
    files = [file for file in merged if file.last_day >= first and file.first_day <= last]
    window = CallWindow(
        days=days,
        now=now,
        duplicates=sum(file.duplicates for file in files),
        future_calls=sum(file.calls for file in merged if file.first_day > last),
    )
    keys, calls = [file.blob_key for file in files], sum(file.calls for file in files)
    if auditors.on_spark is not None and calls > auditors.most_here:
        return auditors.on_spark(blobs.urls(keys), window, calls=calls)
    with blobs.local_files(keys, sum(file.bytes for file in files)) as paths:
        return auditors.here(paths, window)
