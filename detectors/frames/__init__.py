"""Logs as frames of calls: read from any source, checked, stored as Parquet."""

from detectors.frames.parts import CheckedCalls
from detectors.frames.sources import Source, place, read
from detectors.frames.usage_log import (
    CALLS,
    OPTIONAL_CALLS,
    UsageLog,
    from_chunks,
    from_columns,
    read_log,
    write_log,
)
