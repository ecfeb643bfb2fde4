"""The audit of an account: its calls of the last days, over any number of imports."""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import partial
from typing import Any

from detectors.contract import AuditedWindow
from detectors.errors import UnreadableLogError
from service.core.blobs import BlobStore
from service.jobs.transactions import transact
from service.models.calls.call_files import IMPORT, list_live
from service.operations.call_store.compaction import Compaction

# Audits the calls of files in a window of days; the worker hands it in.
AuditFiles = Callable[..., AuditedWindow]


def audit_account(
    compaction: Compaction, blobs: BlobStore, days: int, audit_files: AuditFiles
) -> AuditedWindow:
    """Merge what is new, and audit the calls of the window, each once."""
    compaction.run(at_once=True)
    files = _find_files(compaction, days)
    with blobs.local_files([file.blob_key for file in files]) as paths:
        duplicates = sum(file.duplicates for file in files)
        return audit_files(paths, days, duplicates=duplicates)


def _find_files(compaction: Compaction, days: int) -> Sequence[Any]:
    """Return the merged files of the window; what was published since waits for the next audit."""
    live = partial(list_live, account_id=compaction.account_id)
    files = [file for file in transact(compaction.engine, live) if file.level > IMPORT]
    if not files:
        raise UnreadableLogError("This account has no calls yet.")
    newest: date = max(file.last_day for file in files)
    return [file for file in files if file.last_day >= newest - timedelta(days=days)]
