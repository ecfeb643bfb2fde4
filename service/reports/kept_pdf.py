"""A report's PDF: printed when it is first asked for, and kept as a blob until a rerun."""

from contextlib import suppress
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final

from service.core.blobs import BlobNotFoundError, BlobStore
from service.models.audits.audits import Audit

PDF_FOLDER: Final = "pdf"


def pdf_key(frame_key: str) -> str:
    """The blob of the report that came with this frame: each start of an audit has its own."""
    return f"{PDF_FOLDER}/{PurePosixPath(frame_key).stem}.pdf"


def get_pdf(
    blobs: BlobStore, audit: Audit, document: bytes, published_at: datetime | None = None
) -> bytes:
    """Return the PDF of the audit's published report, whose document this is."""
    key = pdf_key(audit.frame_key or audit.id)
    with suppress(BlobNotFoundError):
        return blobs.get(key)
    # Only who prints pays for the libraries, in time and memory.
    from service.reports.pdf import print_pdf

    content = print_pdf(document, published_at)
    # A reader gets the PDF even where it cannot be kept; then the next one waits for it again.
    with suppress(OSError):
        blobs.put(key, content)
    return content
