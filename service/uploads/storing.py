"""The contract check over a whole file, and the re-encoding of what passes it.

One pass does both: a blob appears only once the last line has passed.
"""

from detectors.formats import encode_chunk, read_chunks
from service.extensions import current_blobs, current_config
from service.uploads.receiving import ReceivedFile, storage_needed


def store_log(upload: ReceivedFile, blob_key: str) -> int:
    """Store the log under this key, as a blob that outlives a crash; returns its valid rows.

    Raises a `DetectorError`, with nothing stored, for a file that breaks the contract, is in none
    of the formats, or is too large unpacked.
    """
    valid = 0
    with storage_needed(), current_blobs().writer(blob_key) as blob:
        for chunk in read_chunks(upload.file, max_bytes=current_config().max_upload_bytes):
            blob.write(encode_chunk(chunk))
            valid += chunk.rows - len(chunk.invalid)
    return valid
