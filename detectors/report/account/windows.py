"""The audit of an account: its calls of some days, from the files that hold them."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import AuditedWindow, InvalidRows, TrafficWindow
from detectors.engines import engine_of
from detectors.formats.columns import present_columns
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls
from detectors.report import audit
from detectors.report.account.finding_days import sum_finding_days
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import sum_traffic

ALL_VALID: Final = InvalidRows(count=0, reasons={}, first=())
# An account's weekdays differ, so monthly dollars take all of them.
LEAST_DAYS: Final = 7


def audit_window(
    files: Sequence[Path], days: int, terms: Terms, *, duplicates: int = 0
) -> AuditedWindow:
    """Audit the calls of the days that end with the newest call.

    Parameters
    ----------
    files : sequence of Path
        Merged files of calls, in which each call is once.
    days : int
        The length of the window in days of 24 hours.
    terms : Terms
        The account's prices and assumptions.
    duplicates : int
        How many calls were dropped when the files were merged, for the report's data quality.

    Returns
    -------
    AuditedWindow
        The report as for a single log with these calls, the savings of its findings by day, and
        its calls by hour and latency.
    """
    return audit_calls([read_window(files, days, duplicates)], terms)


def audit_calls(only_reference: list[CheckedCalls], terms: Terms) -> AuditedWindow:
    """Audit the calls in the list, which is emptied so that they are freed once they are priced."""
    traffic = _sum_traffic(only_reference[0])
    report = audit(only_reference.pop(), prices=terms.prices, thresholds=terms.thresholds)
    return AuditedWindow(report=report, finding_days=sum_finding_days(report), traffic=traffic)


def _sum_traffic(window: CheckedCalls) -> TrafficWindow | None:
    engine = engine_of(window.calls)
    try:
        return sum_traffic(window.calls, engine)
    finally:
        engine.close()


def read_window(files: Sequence[Path], days: int, duplicates: int) -> CheckedCalls:
    """Return the calls of the window, which are checked already."""
    calls = _scan(files)
    newest = pl.col("ts").max()
    window = calls.filter(pl.col("ts") > newest - timedelta(days=days))
    # Kept in memory, because every step of an audit would read the files again.
    frame = checked_calls(window.collect()).collect()
    rows = frame.height + duplicates
    return CheckedCalls(nw.from_native(frame.lazy()), rows, ALL_VALID, LEAST_DAYS, is_merged=True)


def _scan(files: Sequence[Path]) -> pl.LazyFrame:
    """Scan files that may lack different optional columns."""
    known = {name for file in files for name in pl.read_parquet_schema(file)}
    optional = [name for name in present_columns(known) if name in OPTIONAL_CALLS]
    schema = {**CALLS, **{name: OPTIONAL_CALLS[name] for name in optional}}
    scanned = pl.scan_parquet(
        list(files), schema=schema, missing_columns="insert", extra_columns="ignore"
    )
    filled = [pl.col(name).fill_null("" if schema[name] == pl.String else 0) for name in optional]
    return scanned.with_columns(filled)
