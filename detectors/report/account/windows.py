"""The audit of an account: its calls of some days, from the files that hold them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, cast

import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import AuditedWindow, FindingDay, InvalidRows, TrafficWindow
from detectors.engines import Calls, engine_of
from detectors.engines.categories import categorize, with_equal_types
from detectors.formats.columns import present_columns
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls
from detectors.report import audit
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import sum_traffic
from detectors.report.counting.projection import EPOCH
from detectors.report.impacts import FINDING
from detectors.report.money import rounded, usd
from detectors.report.result.document import Report, find_calls

ALL_VALID: Final = InvalidRows(count=0, reasons={}, first=())
# An account's weekdays differ, so monthly dollars take all of them.
LEAST_DAYS: Final = 7
# No rule reads these, and merging has dropped duplicates already.
UNUSED: Final = {"environment", "status"}
_READERS: Final = 4
_Span = tuple[datetime, datetime]


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
    return AuditedWindow(report=report, finding_days=_sum_finding_days(report), traffic=traffic)


def _sum_traffic(window: CheckedCalls) -> TrafficWindow | None:
    engine = engine_of(window.calls)
    try:
        return sum_traffic(window.calls, engine)
    finally:
        engine.close()


def _sum_finding_days(report: Report) -> list[FindingDay]:
    """Return the flagged calls of each finding and their savings, by day in UTC."""
    source = find_calls(report)
    names = {impact.key: finding_id for finding_id, impact in source.impacts.items()}
    with source.reopen() as frames:
        rows = frames.engine.fetch(frames.by_day)
    found = [
        FindingDay(
            finding_id=names[key],
            day=(EPOCH + timedelta(days=row["day"])).date(),
            calls=row["calls"],
            saving_usd=rounded(usd(row, "saving_usd")),
        )
        for row in rows
        if row["in_window"] and (key := tuple(row[name] for name in FINDING)) in names
    ]
    return sorted(found, key=lambda each: (each.finding_id, each.day))


def read_window(files: Sequence[Path], days: int, duplicates: int) -> CheckedCalls:
    """Return the calls of the window, which are checked already."""
    known = {name for file in files for name in pl.read_parquet_schema(file)}
    optional = [name for name in present_columns(known - UNUSED) if name in OPTIONAL_CALLS]
    with ThreadPoolExecutor(_READERS) as pool:
        read = list(pool.map(partial(_read, optional=optional), files))
    frames = _cut([frame for frame in read if not frame.is_empty()], timedelta(days=days))
    del read
    # Kept in memory, because every step of an audit would read the files again.
    frame = checked_calls(pl.concat(with_equal_types(frames))).collect()
    rows = frame.height + duplicates
    calls: Calls = nw.from_native(frame.lazy())
    return CheckedCalls(calls, rows, ALL_VALID, LEAST_DAYS, is_merged=True)


def _read(file: Path, optional: Sequence[str]) -> pl.DataFrame:
    """Read a file that may lack optional columns, with categories instead of repeated texts."""
    schema = {**CALLS, **{name: OPTIONAL_CALLS[name] for name in optional}}
    scanned = pl.scan_parquet(file, schema=schema, missing_columns="insert", extra_columns="ignore")
    filled = [pl.col(name).fill_null("" if schema[name] == pl.String else 0) for name in optional]
    frame = scanned.with_columns(filled).collect()
    return categorize(frame, [n for n in schema if n != "request_id" and schema[n] == pl.String])


def _cut(frames: Sequence[pl.DataFrame], span: timedelta) -> list[pl.DataFrame]:
    """Keep the calls of the time span that ends with the newest call, in order of their files."""
    spans = [cast("_Span", (frame["ts"].min(), frame["ts"].max())) for frame in frames]
    since = max(last for _, last in spans) - span
    in_order = sorted(zip(spans, frames, strict=True), key=lambda each: each[0])
    return [
        frame if first > since else frame.filter(pl.col("ts") > since)
        for (first, _), frame in in_order
    ]
