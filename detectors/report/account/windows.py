"""The audit of an account: its calls of some days, from the files that hold them."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Self, cast

import msgspec
import narwhals.stable.v2 as nw
import polars as pl

from detectors.contract import AuditedWindow, FindingDay, InvalidRows, TrafficWindow
from detectors.engines import Calls
from detectors.engines.categories import categorize, with_equal_types
from detectors.formats.columns import HASHES, REPORTED, empty_value, present_columns
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls
from detectors.report import audit
from detectors.report.account.file_counts import FileCounts
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import window_of
from detectors.report.counting.projection import EPOCH
from detectors.report.impacts import FINDING
from detectors.report.money import rounded, usd
from detectors.report.result.document import Report, find_calls

ALL_VALID: Final = InvalidRows(count=0, reasons={}, first=())
# An account's weekdays differ, so monthly dollars take all of them.
LEAST_DAYS: Final = 7
# No rule reads these, and merging has dropped duplicates already.
UNUSED: Final = {"environment", "status", HASHES}
_READERS: Final = 4
_Span = tuple[datetime, datetime]


class _Part(msgspec.Struct, frozen=True):
    """The calls of a file, their counts if the file has some, and the first and last time."""

    frame: pl.DataFrame
    counts: FileCounts | None
    first: datetime
    last: datetime

    @property
    def days(self) -> range:
        """Return the days in UTC from the first call to the last, as days since year 1."""
        return range(self.first.toordinal(), self.last.toordinal() + 1)

    def after(self, since: datetime) -> Self:
        """Return the calls after this moment, which are counted again."""
        left = self.frame.filter(pl.col("ts") > since)
        return type(self)(left, None, since, self.last)


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
        its calls by hour and latency. Without calls, the report is empty.
    """
    return audit_calls([read_window(files, days, duplicates)], terms)


class Window(msgspec.Struct, frozen=True):
    """The calls of an account in some days, and when they came."""

    calls: CheckedCalls
    traffic: TrafficWindow | None


def audit_calls(only_reference: list[Window], terms: Terms) -> AuditedWindow:
    """Audit the calls in the list, which is emptied so that they are freed once they are priced."""
    traffic = only_reference[0].traffic
    report = audit(only_reference.pop().calls, prices=terms.prices, thresholds=terms.thresholds)
    return AuditedWindow(report=report, finding_days=_sum_finding_days(report), traffic=traffic)


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


def read_window(files: Sequence[Path], days: int, duplicates: int) -> Window:
    """Return the calls of the window, which are checked already."""
    known = {name for file in files for name in pl.read_parquet_schema(file)}
    optional = [name for name in present_columns(known - UNUSED) if name in OPTIONAL_CALLS]
    with ThreadPoolExecutor(_READERS) as pool:
        read = list(pool.map(partial(_read, optional=optional), files))
    found = [part for part in read if not part.frame.is_empty()]
    del read
    if not found:
        return _without_calls(duplicates)
    parts = _cut(found, timedelta(days=days))
    del found
    counts = _count(parts)
    frames = [part.frame for part in parts]
    del parts
    # Kept in memory, because every step of an audit would read the files again.
    frame = checked_calls(pl.concat(with_equal_types(frames))).collect()
    rows = frame.height + duplicates
    calls: Calls = nw.from_native(frame.lazy())
    counted = counts.to_counted()
    checked = CheckedCalls(calls, rows, ALL_VALID, LEAST_DAYS, is_merged=True, counted=counted)
    return Window(checked, window_of(counts.slots, *counts.ends))


def _without_calls(duplicates: int) -> Window:
    calls: Calls = nw.from_native(checked_calls(CALLS.to_frame()))
    return Window(CheckedCalls(calls, duplicates, ALL_VALID, LEAST_DAYS, is_merged=True), None)


def _read(file: Path, optional: Sequence[str]) -> _Part:
    """Read a file that may lack optional columns, with categories instead of repeated texts."""
    schema = {**CALLS, **{name: OPTIONAL_CALLS[name] for name in optional}}
    scanned = pl.scan_parquet(file, schema=schema, missing_columns="insert", extra_columns="ignore")
    filled = [pl.col(name).fill_null(empty_value(name)) for name in optional if name != REPORTED]
    frame = scanned.with_columns(filled).collect()
    texts = [name for name in schema if name != "request_id" and schema[name] == pl.String]
    times = frame["ts"]
    ends = cast("_Span", (times.min(), times.max()))
    return _Part(categorize(frame, texts), FileCounts.read(file), *ends)


def _cut(parts: Sequence[_Part], span: timedelta) -> list[_Part]:
    """Keep the calls of the time span that ends with the newest call, in order of their files."""
    since = max(part.last for part in parts) - span
    in_order = sorted(parts, key=lambda part: (part.first, part.last))
    return [
        part if part.first > since else part.after(since) for part in in_order if part.last > since
    ]


def _count(parts: Sequence[_Part]) -> FileCounts:
    """Add up the counts of whole files, and count the other calls.

    Seconds with a call are counted by day, so files that share a day are counted together.
    """
    parts_of = Counter(day for part in parts for day in part.days)
    counted, others = list[FileCounts](), list[pl.DataFrame]()
    for part in parts:
        if part.counts is not None and all(parts_of[day] == 1 for day in part.days):
            counted.append(part.counts)
        else:
            others.append(part.frame)
    if others:
        counted.append(FileCounts.of(pl.concat(with_equal_types(others))))
    return FileCounts.add(counted)
