"""The audit of an account whose calls don't fit into memory, on Spark."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
import narwhals.stable.v2 as nw

from detectors.contract import AuditedWindow, CallWindow
from detectors.engines import Calls, Engine, engine_of, scanned_on_spark
from detectors.formats.columns import REPORTED, empty_value, present_columns
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls
from detectors.prices.billing import is_included
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import sum_traffic
from detectors.report.account.windows import UNUSED, Window, audit_calls, of_account
from detectors.report.counting.projection import EPOCH

_MICROSECOND: Final = timedelta(microseconds=1)


class IncompleteFilesError(RuntimeError):
    """Spark has read another number of calls than the files have."""


class SparkWindows(msgspec.Struct, frozen=True):
    """The audits of an account on Spark, on an active session or a new one.

    `remote` is the address of a Spark Connect server; without it, `master` is that of a cluster, or
    `local[2]` for two cores of this machine.
    """

    terms: Terms
    remote: str = ""
    master: str = ""

    def audit(self, urls: Sequence[str], window: CallWindow, *, calls: int) -> AuditedWindow:
        """Audit the calls of a window as `audit_window` does, with equal results.

        Parameters
        ----------
        urls : sequence of str
            The merged files, at addresses that Spark can read.
        window
            As for `audit_window`.
        calls : int
            How many calls the files have.

        Raises
        ------
        MissingEngineError, SparkUnavailableError, SparkUnreachableError
            Spark is not installed, doesn't start, or can't be reached.
        IncompleteFilesError
            Spark skipped a file or a part of it.
        """
        with scanned_on_spark(urls, self.remote, self.master) as table:
            return audit_calls([_count(read_table(table, window, calls))], self.terms)


def _count(checked: CheckedCalls) -> Window:
    engine = engine_of(checked.calls)
    try:
        metered = checked.calls.filter(~is_included(checked.calls))
        return Window(checked, sum_traffic(metered, engine))
    finally:
        engine.close()


def read_table(table: Calls, window: CallWindow, calls: int) -> CheckedCalls:
    """Return the calls of the window, which are checked already; the files have `calls`."""
    engine = engine_of(table)
    names = _names(table)
    timed = engine.read_instants(table.select(*names))
    until = (window.until - EPOCH) // _MICROSECOND
    at = nw.col("at_us")
    is_past = at <= until
    newest = nw.when(is_past).then(at).max().alias("newest_us")
    past = is_past.cast(nw.Int64).sum().alias("past")
    (total,) = engine.fetch(timed.select(nw.len().alias("calls"), past, newest))
    if total["calls"] != calls:
        raise IncompleteFilesError(f"{total['calls']} of {calls} calls")
    # No calls have no newest one.
    since = (total["newest_us"] or 0) - timedelta(days=window.days) // _MICROSECOND
    in_window = timed.filter(at > since, is_past).drop("ts")
    checked, count = _check(in_window, engine, names)
    future_calls = window.future_calls + total["calls"] - (total["past"] or 0)
    return of_account(engine.keep(checked), count + window.duplicates, future_calls)


def _names(table: Calls) -> list[str]:
    given = set(table.collect_schema().names()) - UNUSED
    return [*CALLS.names(), *(each for each in present_columns(given) if each in OPTIONAL_CALLS)]


def _check(window: Calls, engine: Engine, names: Sequence[str]) -> tuple[Calls, int]:
    """Return the columns of checked calls as `checked_calls` does, and the number of calls."""
    filled = [
        nw.col(name).fill_null(empty_value(name))
        for name in names
        if name in OPTIONAL_CALLS and name != REPORTED
    ]
    has_tier = (nw.col("service_tier") != "").cast(nw.Int64).sum().alias("tiers")
    has_latency = (~nw.col("latency_ms").is_null()).cast(nw.Int64).sum().alias("latencies")
    (found,) = engine.fetch(window.select(nw.len().alias("calls"), has_tier, has_latency))
    unused = {"service_tier": found["tiers"], "latency_ms": found["latencies"]}
    dropped = [name for name, count in unused.items() if not count]
    # Narwhals accepts no empty list.
    complete = window.with_columns(*filled) if filled else window
    return complete.drop(*dropped), found["calls"]
