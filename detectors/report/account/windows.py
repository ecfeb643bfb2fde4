"""The audit of an account: its calls of some days, from the files that hold them."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import polars as pl

from detectors.contract import AuditedWindow, CallWindow, FindingDay, InvalidRows, TrafficWindow
from detectors.formats.columns import present_columns
from detectors.frames.parts import CheckedCalls, InMemory, Parts
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, Counted
from detectors.report.account.imports import Terms
from detectors.report.account.stored_calls import (
    FileInWindow,
    count_files,
    cut_files,
    measure_file,
    parts_of,
    read_part,
)
from detectors.report.account.traffic import window_of
from detectors.report.counting.projection import EPOCH
from detectors.report.money import rounded
from detectors.report.pipeline import Audited, Progress, audit_logs

ALL_VALID: Final = InvalidRows(count=0, reasons={}, first=())
# An account's weekdays differ, so monthly dollars take all of them.
LEAST_DAYS: Final = 7
# No rule reads these, and merging has dropped duplicates already.
UNUSED: Final = {"environment", "status"}


def audit_window(
    files: Sequence[Path],
    window: CallWindow,
    terms: Terms,
    progress: Progress | None = None,
    *,
    keep_calls: bool = False,
) -> AuditedWindow:
    """Audit the calls of a window.

    Parameters
    ----------
    files : sequence of Path
        Merged files of calls, in which each call is once.
    window : CallWindow
        Its days, and the time of the audit.
    terms : Terms
        The account's prices and assumptions.
    progress : callable of (int, int), optional
        Receives the number of steps that are done, and of all; what it raises ends the audit.
    keep_calls : bool, default False
        Let the report return the calls behind its findings, as long as the files are there.

    Returns
    -------
    AuditedWindow
        The report as for a single log with these calls, the savings of its findings by day, and
        its calls by hour and latency. Without calls, the report is empty.
    """
    read = read_window(files, window)
    reread = partial(read_part, read.files) if keep_calls else None
    try:
        audited = audit_logs(
            [read.calls],
            read.calls.calls,
            terms.prices,
            terms.thresholds,
            keep_calls=keep_calls,
            reread=reread,
            progress=progress,
        )
    finally:
        read.calls.calls.close()
    return to_window(audited, read.traffic)


def to_window(audited: Audited, traffic: TrafficWindow | None) -> AuditedWindow:
    """Return the audit of an account's only log."""
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


class Window(msgspec.Struct, frozen=True):
    """The calls of an account in some days, when they came, and the files that have them."""

    calls: CheckedCalls
    traffic: TrafficWindow | None
    files: Sequence[FileInWindow] = ()


def read_window(files: Sequence[Path], window: CallWindow) -> Window:
    """Return the calls of the window, which are checked already."""
    known = {name for file in files for name in pl.read_parquet_schema(file)}
    optional = tuple(n for n in present_columns(known - UNUSED) if n in OPTIONAL_CALLS)
    measured = [measure_file(file, optional, window.until) for file in files]
    future_calls = window.future_calls + sum(file.future_calls for file in measured)
    own = cut_files([file for file in measured if file.calls], window)
    if not own:
        calls = InMemory([checked_calls(CALLS.to_frame()).collect()])
        return Window(of_account(calls, window.duplicates, future_calls), None)
    counts, parts = count_files(own), parts_of(own)
    rows = sum(file.calls for file in own) + window.duplicates
    checked = of_account(parts, rows, future_calls, counts.to_counted())
    # Calls of a plan have no traffic.
    traffic = None if counts.days.is_empty() else window_of(counts.slots, *counts.ends)
    return Window(checked, traffic, own)


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
