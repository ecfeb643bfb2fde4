"""Frames of calls as Polars holds them, and the operations that keep many calls small and fast."""

from detectors.engine.categories import (
    categorize,
    compose_labels,
    with_equal_types,
    with_texts,
)
from detectors.engine.frames import (
    Calls,
    Row,
    attach,
    drop_duplicate_rows,
    fetch,
    join_small,
    keep,
    number_labels,
)

__all__ = [
    "Calls",
    "Row",
    "attach",
    "categorize",
    "compose_labels",
    "drop_duplicate_rows",
    "fetch",
    "join_small",
    "keep",
    "number_labels",
    "with_equal_types",
    "with_texts",
]
