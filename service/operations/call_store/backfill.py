"""Add the calls of audits that were published before the call store, from their stored frames.

One transaction per audit adds its frame and its spend, so a process that is killed loses nothing
and adds nothing twice.
"""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

from detectors.contract import StoredImport
from service.core.blobs import BlobNotFoundError
from service.core.logs import get_logger
from service.jobs.claiming import Tools
from service.jobs.stopping import is_stop_requested
from service.jobs.transactions import transact
from service.models.calls.account_audits import note_imports
from service.models.calls.call_files import NewImport
from service.models.calls.missing_imports import (
    add_missing_import,
    list_missing,
    skip_missing_import,
)

# So many per job, which other accounts wait for; the sweeper enqueues the next.
AT_ONCE: Final = 500

_log = get_logger(__name__)

# Reads the frame of an import; the worker passes it.
ReadImport = Callable[[bytes], StoredImport]


def add_missing(tools: Tools, account_id: str, read_import: ReadImport) -> int:
    """Add some audits of the account that are missing in its call store; return their number."""
    query = partial(list_missing, account_id=account_id, limit=AT_ONCE)
    added = 0
    for audit in transact(tools.engine, query):
        if is_stop_requested():
            break
        try:
            content = tools.blobs.get(audit.frame_key)
        except BlobNotFoundError:
            skip = partial(skip_missing_import, audit_id=audit.id, frame_key=audit.frame_key)
            transact(tools.engine, skip)
            _log.warning("frame_missing", audit_id=audit.id)
            continue
        found = read_import(content)
        new = NewImport(
            account_id=account_id,
            audit_id=audit.id,
            import_id=PurePosixPath(audit.frame_key).stem,
            blob_key=audit.frame_key,
            content_hash=sha256(content).digest(),
            first_day=found.first_day,
            last_day=found.last_day,
            calls=found.calls,
            bytes=len(content),
            spend=found.spend,
            priced_with=found.priced_with,
            file_hash=audit.content_hash,
        )
        added += transact(tools.engine, partial(add_missing_import, new=new))
    if added:
        transact(tools.engine, partial(note_imports, account_ids=[account_id]))
        _log.info("imports_added", account_id=account_id, audits=added)
    return added
