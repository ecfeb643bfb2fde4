"""What differs between dataframe engines, so that pricing and rules need not know their own.

Polars is the default and the fastest; pandas, DuckDB and PySpark frames are audited where they are.
An engine's own library is imported only where the calls are on it already, or where it is asked
for by name.
"""

from detectors.engines.choice import (
    ENGINES,
    MissingEngineError,
    UnknownEngineError,
    engine_of,
    fetch,
    is_known,
    place_beside,
    scan_parquet,
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
]
