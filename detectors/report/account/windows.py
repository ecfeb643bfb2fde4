"""The audit of an account: its calls of some days, from the files that hold them."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, Self, cast

import msgspec
import polars as pl

from detectors.contract import AuditedWindow, CallWindow, FindingDay, InvalidRows, TrafficWindow
from detectors.engine import Calls
from detectors.engine.categories import categorize, with_equal_types
from detectors.formats.columns import REPORTED, empty_value, present_columns
from detectors.frames.parts import MEMORY_CALLS, InMemory, Parts
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls, Counted
from detectors.report.account.file_counts import FileCounts
from detectors.report.account.imports import Terms
from detectors.report.account.large_windows import (
    StoredParts,
    count_files,
    cut_files,
    measure_file,
    scan_stored,
)
from detectors.report.account.traffic import window_of
from detectors.report.counting.projection import EPOCH
from detectors.report.money import rounded
from detectors.report.pipeline import audit_logs

ALL_VALID: Final = InvalidRows(count=0, reasons={}, first=())
# An account's weekdays differ, so monthly dollars take all of them.
LEAST_DAYS: Final = 7
# No rule reads these, and merging has dropped duplicates already.
UNUSED: Final = {"environment", "status"}
_READERS: Final = 4
_Span = tuple[datetime, datetime]


class _Part(msgspec.Struct, frozen=True):
    """The calls of a file up to now, their counts if the file has some, and both ends.

    `future_calls` of the file are excluded.
    """

    frame: pl.DataFrame
    counts: FileCounts | None
    first: datetime
    last: datetime
    future_calls: int = 0

    def after(self, since: datetime) -> Self:
        """Return the calls after this moment, which are counted again."""
        left = self.frame.filter(pl.col("ts") > since)
        return type(self)(left, None, since, self.last)


def audit_window(files: Sequence[Path], window: CallWindow, terms: Terms) -> AuditedWindow:
    """Audit the calls of a window.

    Parameters
    ----------
    files : sequence of Path
        Merged files of calls, in which each call is once.
    window : CallWindow
        Its days, and the time of the audit.
    terms : Terms
        The account's prices and assumptions.

    Returns
    -------
    AuditedWindow
        The report as for a single log with these calls, the savings of its findings by day, and
        its calls by hour and latency. Without calls, the report is empty.
    """
    return audit_calls([read_window(files, window)], terms)


class Window(msgspec.Struct, frozen=True):
    """The calls of an account in some days, and when they came."""

    calls: CheckedCalls
    traffic: TrafficWindow | None


def audit_calls(only_reference: list[Window], terms: Terms) -> AuditedWindow:
    """Audit the calls in the list, which is emptied so that they are freed once they are priced."""
    window = only_reference.pop()
    log, traffic = window.calls, window.traffic
    del window
    try:
        audited = audit_logs([log], log.calls, terms.prices, terms.thresholds, keep_calls=False)
    finally:
        log.calls.close()
    found = [
        FindingDay(
            finding_id=finding_id,
            day=(EPOCH + timedelta(days=row["day"])).date(),
            calls=row["calls"],
            saving_usd=rounded(row["saving_usd"]),
        )
        for finding_id, rows in audited.finding_days[0].items()
        for row in rows
    ]
    found.sort(key=lambda each: (each.finding_id, each.day))
    return AuditedWindow(report=audited.reports[0], finding_days=found, traffic=traffic)


def read_window(files: Sequence[Path], window: CallWindow) -> Window:
    """Return the calls of the window, which are checked already."""
    known = {name for file in files for name in pl.read_parquet_schema(file)}
    optional = [name for name in present_columns(known - UNUSED) if name in OPTIONAL_CALLS]
    if (
        sum(pl.scan_parquet(file).select(pl.len()).collect().item() for file in files)
        > MEMORY_CALLS
    ):
        return _read_in_parts(files, window, tuple(optional))
    with ThreadPoolExecutor(_READERS) as pool:
        read = list(pool.map(partial(_read, optional=optional, until=window.until), files))
    return _window_of(read, window)


def window_of_frame(frame: pl.DataFrame, window: CallWindow) -> Window:
    """Return the calls of the window from the calls of all files, in any order."""
    optional = [name for name in OPTIONAL_CALLS if name in frame.columns and name not in UNUSED]
    types = pl.Schema({**CALLS, **{name: OPTIONAL_CALLS[name] for name in optional}})
    calls = frame.lazy().select(types.names()).cast(types)
    return _window_of([_part_of(calls, None, window.until)], window)


def _window_of(read: list[_Part], window: CallWindow) -> Window:
    """Return the calls of the window from the parts in the list, which is emptied."""
    future_calls = window.future_calls + sum(part.future_calls for part in read)
    found = [part for part in read if not part.frame.is_empty()]
    read.clear()
    if not found:
        calls = InMemory(checked_calls(CALLS.to_frame()))
        return Window(of_account(calls, window.duplicates, future_calls), None)
    parts = _cut(found, timedelta(days=window.days))
    del found
    counts = _count(parts)
    frames = [part.frame for part in parts]
    del parts
    # Kept in memory, because every step of an audit would read the files again.
    frame = checked_calls(pl.concat(with_equal_types(frames))).collect()
    rows, counted = frame.height + window.duplicates, counts.to_counted()
    checked = of_account(InMemory(frame.lazy(), frame.height), rows, future_calls, counted)
    # Calls of a plan have no traffic.
    traffic = None if counts.days.is_empty() else window_of(counts.slots, *counts.ends)
    return Window(checked, traffic)


def _read_in_parts(files: Sequence[Path], window: CallWindow, optional: tuple[str, ...]) -> Window:
    """Return the calls of a window that are too many to be in memory together."""
    measured = [measure_file(file, optional, window.until) for file in files]
    found = [each for each in measured if each is not None]
    future_calls = window.future_calls + sum(each.future_calls for each in found)
    own = cut_files([each for each in found if each.calls], timedelta(days=window.days))
    counts, parts = count_files(own), StoredParts(own)
    rows = sum(each.count() for each in own) + window.duplicates
    checked = of_account(parts, rows, future_calls, counts.to_counted())
    traffic = None if counts.days.is_empty() else window_of(counts.slots, *counts.ends)
    return Window(checked, traffic)


def of_account(
    calls: Parts, rows: int, future_calls: int, counted: Counted | None = None
) -> CheckedCalls:
    """Return the calls of an account's window; `rows` include those that were dropped."""
    return CheckedCalls(
        calls,
        rows,
        ALL_VALID,
        LEAST_DAYS,
        is_account=True,
        counted=counted,
        future_calls=future_calls,
    )


def _read(file: Path, optional: Sequence[str], until: datetime) -> _Part:
    """Read a file that may lack optional columns."""
    return _part_of(scan_stored(file, optional), FileCounts.read(file), until)


def _part_of(calls: Calls, counts: FileCounts | None, until: datetime) -> _Part:
    """Return the calls until now, with categories instead of repeated texts."""
    schema = calls.collect_schema()
    optional = [name for name in schema if name in OPTIONAL_CALLS and name != REPORTED]
    filled = [pl.col(name).fill_null(empty_value(name)) for name in optional]
    frame = calls.with_columns(filled).collect()
    texts = [name for name in schema if name != "request_id" and schema[name] == pl.String]
    future_calls = int((frame["ts"] > until).sum())
    if future_calls:
        frame, counts = frame.filter(pl.col("ts") <= until), None
    times = frame["ts"]
    ends = cast("_Span", (times.min(), times.max()))
    return _Part(categorize(frame, texts), counts, *ends, future_calls)


def _cut(parts: Sequence[_Part], span: timedelta) -> list[_Part]:
    """Keep the calls of the time span that ends with the newest call, in order of their files."""
    since = max(part.last for part in parts) - span
    in_order = sorted(parts, key=lambda part: (part.first, part.last))
    return [
        part if part.first > since else part.after(since) for part in in_order if part.last > since
    ]


def _count(parts: Sequence[_Part]) -> FileCounts:
    """Add up the counts of whole files, and count the other calls.

    Seconds with a call are counted by day, so the days that files share are counted together.
    """
    counted = [part.counts for part in parts if part.counts is not None]
    others = [part.frame for part in parts if part.counts is None]
    if others:
        counted.append(FileCounts.of(pl.concat(with_equal_types(others))))
    days = Counter(day for each in counted for day in each.days["day"])
    shared = [day for day, files in days.items() if files > 1]
    if not shared:
        return FileCounts.add(counted)
    of_days = pl.col("ts").dt.epoch("d").is_in(shared)
    frames = [part.frame.filter(of_days) for part in parts]
    again = FileCounts.of(pl.concat(with_equal_types(frames))).days
    return FileCounts.add(counted, instead=again)
