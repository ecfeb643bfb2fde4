"""The audit of an account whose calls don't fit into memory, on Spark."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec
import narwhals.stable.v2 as nw

from detectors.contract import AuditedWindow
from detectors.engines import Calls, Engine, engine_of, scanned_on_spark
from detectors.formats.columns import REPORTED, empty_value, present_columns
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, CheckedCalls
from detectors.report.account.imports import Terms
from detectors.report.account.traffic import sum_traffic
from detectors.report.account.windows import ALL_VALID, LEAST_DAYS, UNUSED, Window, audit_calls

_MICROSECOND: Final = timedelta(microseconds=1)
_AT: Final = nw.col("at_us")


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

    def audit(
        self, urls: Sequence[str], days: int, *, calls: int, duplicates: int = 0
    ) -> AuditedWindow:
        """Audit the calls of a window as `audit_window` does, with equal results.

        Parameters
        ----------
        urls : sequence of str
            The merged files, at addresses that Spark can read.
        days, duplicates
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
            return audit_calls([_count(read_table(table, days, calls, duplicates))], self.terms)


def _count(checked: CheckedCalls) -> Window:
    engine = engine_of(checked.calls)
    try:
        return Window(checked, sum_traffic(checked.calls, engine))
    finally:
        engine.close()


def read_table(table: Calls, days: int, calls: int, duplicates: int) -> CheckedCalls:
    """Return the calls of the window, which are checked already; the files have `calls`."""
    engine = engine_of(table)
    names = _names(table)
    timed = engine.read_instants(table.select(*names))
    (total,) = engine.fetch(timed.select(nw.len().alias("calls"), _AT.max().alias("newest_us")))
    if total["calls"] != calls:
        raise IncompleteFilesError(f"{total['calls']} of {calls} calls")
    # No calls have no newest one.
    since = (total["newest_us"] or 0) - timedelta(days=days) // _MICROSECOND
    checked, in_window = _check(timed.filter(nw.col("at_us") > since).drop("ts"), engine, names)
    rows = in_window + duplicates
    return CheckedCalls(engine.keep(checked), rows, ALL_VALID, LEAST_DAYS, is_merged=True)


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
