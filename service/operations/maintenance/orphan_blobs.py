"""Delete orphan blobs: those that no audit and no file of calls names.

A raw blob is stored before its audit's row is committed, and a frame before its report, so a killed
process can leave a blob behind. Both take far less than an hour. A purged raw upload becomes an
orphan as well, and so does the PDF of a report that a rerun replaced. The calls of a finding are an
orphan from the start: after a download nobody needs them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import Final

from sqlalchemy import Connection

from service.core.blobs import BlobStore
from service.core.logs import get_logger
from service.core.telemetry.counters import SWEEPER_ACTIONS
from service.models.audits.audits import list_named_keys
from service.models.audits.blob_keys import BLOB_FOLDERS, audit_id_of, is_frame_key, pdf_key
from service.models.calls.call_files import list_stored_keys

_OLD_SECONDS: Final = 3_600.0
_INTERVAL_SECONDS: Final = 3_600.0
_PAGE: Final = 1_000

_log = get_logger(__name__)


@contextmanager
def storage_failure_logged() -> Iterator[None]:
    """Log a failure of the storage and go on: the sweeper tries again later."""
    try:
        yield
    except OSError as error:
        _log.warning("storage_unavailable", error_type=type(error).__name__, reason=error.strerror)


class OrphanBlobs:
    """Check all blobs once an hour, one page per call, so that the sweeper isn't held up."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._keys: Iterator[str] = iter(())
        self._look_again_at = time.monotonic()

    def clear_page(self, connection: Connection) -> None:
        """Remove the orphans of the next page."""
        with storage_failure_logged():
            page = list(islice(self._keys, _PAGE))
            if not page and time.monotonic() >= self._look_again_at:
                self._look_again_at = time.monotonic() + _INTERVAL_SECONDS
                self._keys = chain.from_iterable(
                    self._blobs.list_old(folder, _OLD_SECONDS) for folder in BLOB_FOLDERS
                )
                page = list(islice(self._keys, _PAGE))
            if not page:
                return
            with connection.begin():
                named = list_named_keys(connection, [audit_id_of(key) for key in page])
                named |= list_stored_keys(connection, page)
            named |= {pdf_key(key) for key in named if is_frame_key(key)}
            orphans = [key for key in page if key not in named]
            for key in orphans:
                self._blobs.delete(key)
            if orphans:
                SWEEPER_ACTIONS.labels("orphan_blob_removed").inc(len(orphans))
                _log.info("orphan_blobs_removed", count=len(orphans))
