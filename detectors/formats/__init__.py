"""Bytes in, records out: the ingest body, the canonical form, and one reader a log format.

Nothing here imports a dataframe library: the service validates with this package.
"""

from detectors.formats.batches import decode_batch
from detectors.formats.canonical import decode_records, encode_records

__all__ = ["decode_batch", "decode_records", "encode_records"]
