"""Rendered reports that are kept: pages in memory, PDFs as blobs until a rerun.

A published report does not change.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar

from service.core.blobs import BlobNotFoundError, BlobStore
from service.models.audits.audits import INGEST, Audit
from service.models.audits.blob_keys import pdf_key

Part = TypeVar("Part")


class KeptParts(Generic[Part]):
    """A least-recently-used cache of at most `most` parts."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts: OrderedDict[Hashable, Part] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Part]) -> Part:
        """Return the cached part, or make and cache it."""
        with self._lock:
            if key in self._parts:
                self._parts.move_to_end(key)
                return self._parts[key]
        part = make()  # two threads may both make it, with the same result
        with self._lock:
            self._parts[key] = part
            while len(self._parts) > self._most:
                self._parts.popitem(last=False)
        return part


def get_pdf(
    blobs: BlobStore,
    audit: Audit,
    document: bytes,
    published_at: datetime | None = None,
    *,
    name: str = "",
    rules_url: str = "",
) -> bytes:
    """Return the PDF of the audit's published report, rendering it if it is not stored.

    `name` is that of the account. With one, no row names the PDF's key, so it is soon an orphan: it
    is printed again from time to time, and a new name is a new PDF.
    """
    key = pdf_key(audit.frame_key or audit.id, name)
    with suppress(BlobNotFoundError):
        return blobs.get(key)
    # The PDF libraries take time and memory, so they load only to render.
    from service.reports.pdf import print_pdf

    is_batch = audit.source == INGEST
    content = print_pdf(document, published_at, is_batch=is_batch, name=name, rules_url=rules_url)
    # If storing fails, this reader still gets the PDF and the next one renders it again.
    with suppress(OSError):
        blobs.put(key, content)
    return content
