"""Bytes in, records out: the ingest body, the canonical form, and one reader per log format.

Nothing here imports a dataframe library, because the service validates with this package.
"""

from detectors.formats.batches import V1, V2, Version, decode_batch
from detectors.formats.canonical import (
    decode_records,
    encode_chunk,
    encode_records,
    read_stored,
)
from detectors.formats.chunks import Chunk
from detectors.formats.columns import records_of
from detectors.formats.detection import DIALECTS, JSON_STYLES
from detectors.formats.reader import MAX_UPLOAD_BYTES, read_chunks

__all__ = [
    "DIALECTS",
    "JSON_STYLES",
    "MAX_UPLOAD_BYTES",
    "V1",
    "V2",
    "Chunk",
    "Version",
    "decode_batch",
    "decode_records",
    "encode_chunk",
    "encode_records",
    "read_chunks",
    "read_stored",
    "records_of",
]
