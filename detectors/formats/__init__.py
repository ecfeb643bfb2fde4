"""Bytes in, records out: the ingest body, the canonical form, and one reader per log format.

Nothing here imports a dataframe library, because the service validates with this package.
"""

from detectors.formats.canonical import encode_chunk, encode_records, read_stored
from detectors.formats.chunks import Chunk
from detectors.formats.columns import records_of
from detectors.formats.csv_logs.mapping import ColumnMapping, read_pairs
from detectors.formats.csv_logs.names import (
    BESIDE_UNCACHED,
    BY_MODEL,
    SYNONYMS,
    TARGETS,
    TEXT_COLUMNS,
    UNNEEDED_COLUMNS,
    ProposedColumn,
    plain,
    propose,
)
from detectors.formats.detection import DIALECTS, JSON_STYLES
from detectors.formats.reader import read_chunks
from detectors.formats.records.batches import V1, V2, Version, decode_batch
