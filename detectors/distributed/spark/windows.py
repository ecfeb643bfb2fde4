"""The audit of an account's stored calls on Spark."""

from datetime import timedelta
from typing import Any

from detectors.contract import AuditedWindow, CallWindow
from detectors.distributed.spark.auditing import Progress, opened
from detectors.distributed.spark.running import Jobs
from detectors.distributed.spark.tasks import Setting, find_versions
from detectors.frames.parts import InMemory
from detectors.frames.sources import checked_calls
from detectors.frames.usage_log import CALLS
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import add_slots, window_of
from detectors.report.account.windows import of_account, to_window
from detectors.report.counting.projection import EPOCH
from detectors.report.pipeline import audit_logs

_MICROSECOND = timedelta(microseconds=1)


class IncompleteFilesError(RuntimeError):
    """Spark has read another number of calls than the files have."""


def audit_window(
    frame: Any,
    window: CallWindow,
    terms: Terms,
    *,
    calls: int,
    progress: Progress | None = None,
) -> AuditedWindow:
    """Audit the calls of a window in a frame of `calls` stored calls."""
    # Find the time of the newest call up to now, and how many are in the future.
    until = (window.until - EPOCH) // _MICROSECOND
    at = "unix_micros(ts)"
    counted = frame.selectExpr(
        "count(*) as calls",
        f"max(case when {at} <= {until} then {at} end) as last",
        f"count_if({at} > {until}) as future",
    )
    jobs = Jobs(frame.sparkSession, 1, None)
    (row,) = jobs.collect(counted, "count an account's calls").to_pylist()
    if row["calls"] != calls:
        raise IncompleteFilesError(f"{row['calls']} of {calls} calls")
    last = None if row["last"] is None else EPOCH + timedelta(microseconds=row["last"])
    future_calls = row["future"] + window.future_calls
    none = InMemory([checked_calls(CALLS.to_frame()).collect()])
    if last is None:
        log = of_account(none, window.duplicates, future_calls)
        return to_window(
            audit_logs([log], none, terms.prices, terms.thresholds, keep_calls=False), None
        )
    after = window.after(last)
    setting = Setting(versions=find_versions(), stored=(after, window.until))
    with opened(frame, setting, progress) as rows:
        log = of_account(none, rows.valid + window.duplicates, future_calls)
        audited = rows.audit(log, terms.prices, terms.thresholds, keep_calls=False)
        traffic = None  # of metered calls; those of a plan have none
        if ends := [end for each in rows.summaries for end in each.ends]:
            slots = add_slots([table for each in rows.summaries for table in each.slots])
            first, last_us = min(first for first, _ in ends), max(end for _, end in ends)
            traffic = window_of(slots, first, last_us)
        return to_window(audited, traffic)
