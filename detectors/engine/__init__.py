"""Frames of calls as Polars holds them, and the operations that keep many calls small and fast."""

from detectors.engine.categories import categorize, compose_labels, with_equal_types, with_texts
from detectors.engine.frames import (
    Calls,
    Row,
    attach,
    collect,
    collect_all,
    drop_duplicate_rows,
    fetch,
    join_numbered,
    join_small,
    number_labels,
    planned_for,
)
