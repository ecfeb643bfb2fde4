"""Finds avoidable spend in a language-model bill from token counts alone.

>>> import detectors
>>> report = detectors.audit("usage.jsonl")

`audit` and `read` take a path, an open binary file, an iterable of records or a frame. The names
below are imported on first use, because the dataframe library and the prices take time to load.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detectors.contract import UsageRecord, UsageRecordV2
    from detectors.errors import (
        CallsUnavailableError,
        ColumnMappingError,
        ContractError,
        DetectorError,
        PriceTermsError,
        PriceUpdateError,
        TooFewValidRowsError,
        UnreadableLogError,
    )
    from detectors.formats import ColumnMapping
    from detectors.frames import UsageLog, read
    from detectors.prices.book import PriceBook
    from detectors.report import audit, audit_many
    from detectors.report.result.document import Finding, Report
    from detectors.rules import Thresholds

__all__ = [
    "CallsUnavailableError",
    "ColumnMapping",
    "ColumnMappingError",
    "ContractError",
    "DetectorError",
    "Finding",
    "PriceBook",
    "PriceTermsError",
    "PriceUpdateError",
    "Report",
    "Thresholds",
    "TooFewValidRowsError",
    "UnreadableLogError",
    "UsageLog",
    "UsageRecord",
    "UsageRecordV2",
    "audit",
    "audit_many",
    "read",
]

MEMORY = "narenas:2,dirty_decay_ms:10000,muzzy_decay_ms:0"
_HOMES = {
    "CallsUnavailableError": "errors",
    "ColumnMapping": "formats",
    "ColumnMappingError": "errors",
    "ContractError": "errors",
    "DetectorError": "errors",
    "Finding": "report.result.document",
    "PriceBook": "prices.book",
    "PriceTermsError": "errors",
    "PriceUpdateError": "errors",
    "Report": "report.result.document",
    "Thresholds": "rules",
    "TooFewValidRowsError": "errors",
    "UnreadableLogError": "errors",
    "UsageLog": "frames",
    "UsageRecord": "contract",
    "UsageRecordV2": "contract",
    "audit": "report",
    "audit_many": "report",
    "read": "frames",
}


def __dir__() -> list[str]:
    # Lets notebooks complete names that are not imported yet.
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Polars reads this when it is imported: freed memory stays with the process for ten seconds,
    # and is for all threads. That saves a quarter of the time of a large audit.
    os.environ.setdefault("_RJEM_MALLOC_CONF", MEMORY)
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
