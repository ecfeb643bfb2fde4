"""The differences between dataframe engines, so that pricing and rules work on all of them.

Polars is the default and the fastest; pandas, DuckDB and PySpark frames are audited where they are.
An engine's library is imported only if the calls are on that engine or if the caller names it.
"""

from detectors.engines.categories import (
    categorize,
    compose_labels,
    with_equal_types,
    with_texts,
)
from detectors.engines.choice import (
    ENGINES,
    MissingEngineError,
    UnknownEngineError,
    engine_of,
    fetch,
    is_known,
    place_beside,
    scan_parquet,
    scanned_on_spark,
)
from detectors.engines.engine import Calls, Engine, Row

__all__ = [
    "ENGINES",
    "Calls",
    "Engine",
    "MissingEngineError",
    "Row",
    "UnknownEngineError",
    "engine_of",
    "fetch",
    "is_known",
    "place_beside",
    "scan_parquet",
    "scanned_on_spark",
    "categorize",
    "compose_labels",
    "with_equal_types",
    "with_texts",
]
