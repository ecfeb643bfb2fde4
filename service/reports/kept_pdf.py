"""A report's PDF: rendered on the first request and stored as a blob until a rerun."""

from contextlib import suppress
from datetime import datetime

from service.core.blobs import BlobNotFoundError, BlobStore
from service.models.audits.audits import Audit
from service.models.audits.blob_keys import pdf_key


def get_pdf(
    blobs: BlobStore, audit: Audit, document: bytes, published_at: datetime | None = None
) -> bytes:
    """Return the PDF of the audit's published report, rendering it if it is not stored."""
    key = pdf_key(audit.frame_key or audit.id)
    with suppress(BlobNotFoundError):
        return blobs.get(key)
    # The PDF libraries take time and memory, so they load only to render.
    from service.reports.pdf import print_pdf

    content = print_pdf(document, published_at)
    # If storing fails, this reader still gets the PDF and the next one renders it again.
    with suppress(OSError):
        blobs.put(key, content)
    return content
