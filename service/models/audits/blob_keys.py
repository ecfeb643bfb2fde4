"""The layout of the blobs that audits name: which folder holds what, and under which key.

A key is `<folder>/<audit ID>.<ending>`, with `-<attempt>` after the ID where each attempt has one.
Merged files of calls have an ID of their own instead.
"""

from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final

RAW, FRAMES, PDFS, CALLS, STORE = BLOB_FOLDERS = ("raw", "frames", "pdf", "calls", "store")
_FRAME_PREFIX: Final = f"{FRAMES}/"
# Another number makes every PDF print again; the sweeper deletes those that no key names.
_PDF_LAYOUT: Final = 3


def raw_key(audit_id: str) -> str:
    """Return the key of the re-encoded records of a batch or an upload."""
    return f"{RAW}/{audit_id}.jsonl"


def frame_key(audit_id: str, attempt: int) -> str:
    """Return the key of the normalized calls as Parquet."""
    return f"{FRAMES}/{audit_id}-{attempt}.parquet"


def pdf_key(frame_key: str, name: str = "") -> str:
    """Return the key of the report's PDF; each attempt, and each name on it, has its own."""
    named = f"-{sha256(name.encode()).hexdigest()[:16]}" if name else ""
    return f"{PDFS}/{PurePosixPath(frame_key).stem}-{_PDF_LAYOUT}{named}.pdf"


def calls_key(frame_key: str, finding_id: str, ending: str = "csv") -> str:
    """Return the key of the calls behind a finding. No row names it, so it is soon an orphan."""
    return f"{CALLS}/{PurePosixPath(frame_key).stem}-{finding_id}.{ending}"


def store_key(file_id: str) -> str:
    """Return the key of a merged file of calls, which belongs to an account and to no audit."""
    return f"{STORE}/{file_id}.parquet"


def is_frame_key(key: str) -> bool:
    return key.startswith(_FRAME_PREFIX)


def audit_id_of(key: str) -> str:
    """Return the ID of the audit that a blob belongs to."""
    return key.partition("/")[2].partition(".")[0].partition("-")[0]
