"""Clearing away raw blobs that no audit names.

A blob is stored before its audit's row is committed, so a web process that is killed in between
leaves one behind. No request takes nearly an hour from the one to the other.
"""

import time
from collections.abc import Iterator
from itertools import islice
from typing import Final

from sqlalchemy import Connection

from service.blobs import BlobStore
from service.logs import get_logger
from service.models.audits import RAW_FOLDER, list_blob_keys

_OLD_SECONDS: Final = 3_600.0
_LOOK_AGAIN_SECONDS: Final = 3_600.0
_PAGE: Final = 1_000

_log = get_logger(__name__)


class StrayBlobs:
    """Goes through the raw blobs page by page, and once through all of them an hour.

    One page a call, however many blobs there are: the sweeper has more urgent things to do.
    """

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._keys: Iterator[str] = iter(())
        self._look_again_at = time.monotonic()

    def clear_page(self, connection: Connection) -> None:
        """Remove the strays of the next page."""
        try:
            self._clear(connection, self._next_page())
        except OSError as error:
            _log.warning("storage_unavailable", error_type=type(error).__name__)

    def _next_page(self) -> list[str]:
        page = list(islice(self._keys, _PAGE))
        if not page and time.monotonic() >= self._look_again_at:
            self._look_again_at = time.monotonic() + _LOOK_AGAIN_SECONDS
            self._keys = self._blobs.list_old(RAW_FOLDER, _OLD_SECONDS)
            page = list(islice(self._keys, _PAGE))
        return page

    def _clear(self, connection: Connection, keys: list[str]) -> None:
        if not keys:
            return
        with connection.begin():
            named = set(list_blob_keys(connection, [_audit_id_of(key) for key in keys]))
        strays = [key for key in keys if key not in named]
        for key in strays:
            self._blobs.delete(key)
        if strays:
            _log.info("stray_blobs_removed", count=len(strays))


def _audit_id_of(key: str) -> str:
    """`raw/<audit id>.<ending>` is how a raw blob is named."""
    return key.partition("/")[2].partition(".")[0]
