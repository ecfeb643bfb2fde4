"""The contract check over a whole file, and the re-encoding of what passes it.

One pass does both: a blob appears only once the last line has passed.
"""

from typing import Final

from detectors.formats import encode_chunk, read_chunks
from service.models.audits.audits import RAW_FOLDER, Audit
from service.models.base import new_id
from service.web.http.current import current_blobs, current_config
from service.web.http.storage import storage_needed
from service.web.intake.receiving import ReceivedFile

# As fast as larger ones, and several uploads at once stay small.
CHUNK_BYTES: Final = 256 * 1024


def new_audit(account_id: str, source: str) -> Audit:
    """Return an audit with its ID and the key of its raw blob, which is stored before its row."""
    audit_id = new_id()
    blob_key = f"{RAW_FOLDER}/{audit_id}.jsonl"
    return Audit(id=audit_id, account_id=account_id, source=source, blob_key=blob_key)


def store_log(upload: ReceivedFile, blob_key: str) -> int:
    """Store the log under this key, as a blob that outlives a crash; returns its valid rows.

    Raises a `DetectorError`, with nothing stored, for a file that breaks the contract, is in none
    of the formats, or is too large unpacked.
    """
    valid, max_bytes = 0, current_config().max_upload_bytes
    with storage_needed(), current_blobs().writer(blob_key) as blob:
        for chunk in read_chunks(upload.file, chunk_bytes=CHUNK_BYTES, max_bytes=max_bytes):
            blob.write(encode_chunk(chunk))
            valid += chunk.rows - len(chunk.invalid)
    return valid
