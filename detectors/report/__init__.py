"""The audit, end to end: a log in, a report document out."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from detectors.engines import engine_of
from detectors.errors import TooFewValidRowsError
from detectors.formats.csv_logs.mapping import Mapped
from detectors.frames import Source, UsageLog, read
from detectors.frames.sources import place, place_together
from detectors.frames.usage_log import ReadRows
from detectors.prices.book import PriceBook
from detectors.report.counting.records import CountedCalls
from detectors.report.pipeline import Audits
from detectors.report.result.calls import FlaggedFrames
from detectors.report.result.document import Report
from detectors.rules import Thresholds


def audit(
    source: Source | UsageLog,
    *,
    mapping: Mapped | None = None,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
    engine: str | None = None,
    keep_calls: bool = True,
) -> Report:
    """Audit a usage log: its cost, its avoidable spend, and how to fix it.

    Parameters
    ----------
    source : path, binary file, iterable of records or dicts, frame, or UsageLog
        A frame of Polars, pandas, DuckDB or PySpark has one row per call and the columns of
        `UsageRecord`; it is audited on its own engine, and only small results are fetched. A path,
        or a pattern like ``logs/*.parquet``, may name Parquet files.
    mapping : dict or ColumnMapping, optional
        The columns of a CSV with other names, as for `read`.
    prices : PriceBook, optional
        By default, the prices of the installed genai-prices.
    thresholds : Thresholds, optional
        The numbers in the detectors' definitions.
    engine : {"polars", "duckdb", "pyspark"}, optional
        The engine for Parquet files; Polars by default.
    keep_calls : bool, default True
        Keep the priced calls in memory with the report, for `Report.calls`. DuckDB computes them
        again instead.

    Returns
    -------
    Report
        Totals in US dollars and tokens, and the findings, most expensive first. Monthly dollars
        are projected from the observed days to 30 days.

    Raises
    ------
    TooFewValidRowsError
        Less than half of the rows are valid.
    UnknownEngineError, MissingEngineError
        Audits do not support that engine, or it is not installed.
    UnreadableLogError, ContractError
        As for `read`.

    Examples
    --------
    >>> import detectors
    >>> call = {"ts": "2026-10-01T09:00:00Z", "provider": "openai", "model": "gpt-4.1"}
    >>> report = detectors.audit([call | {"prompt_tokens": 1_000_000, "completion_tokens": 0}])
    >>> report.audit.total_spend_usd
    Decimal('2.000000000')
    """
    if thresholds is None:
        thresholds = Thresholds()
    elif not isinstance(thresholds, Thresholds):
        raise TypeError("expected thresholds such as detectors.Thresholds(floor_usd=1.0)")
    prices = prices or PriceBook()
    if mapping is not None:
        source = read(source, mapping=mapping)
    log, own = place(source, engine)
    again = partial(_audit_again, source, engine, prices, thresholds)
    reopen = None if own.outlasts_close else again
    del source, again  # lets a log without other references be freed when its calls are priced
    try:
        _check_validity(log, thresholds)
        counted = CountedCalls.of([log], log.calls, own, thresholds)
        del log
        audits = Audits.of(counted, prices, thresholds, own)
        del counted
        (report,) = audits.reports(keep_calls=keep_calls, reopen=reopen)
        return report
    finally:
        own.close()


@contextmanager
def _audit_again(
    source: Source | UsageLog,
    named: str | None,
    prices: PriceBook,
    thresholds: Thresholds,
) -> Iterator[FlaggedFrames]:
    """Yield what the detectors flag in a log on an engine that has freed it."""
    log, engine = place(source, named)
    try:
        counted = CountedCalls.of([log], log.calls, engine, thresholds)
        yield Audits.of(counted, prices, thresholds, engine).find()
    finally:
        engine.close()


def audit_many(
    logs: Sequence[UsageLog],
    *,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
    keep_calls: bool = True,
) -> list[Report]:
    """Audit several small logs at once, each as if it were alone.

    Planning the queries takes most of the time of a small audit, and here all logs share it.

    Parameters
    ----------
    logs : sequence of UsageLog
        Logs that `read` returned.
    prices, thresholds, keep_calls : optional
        As for `audit`.

    Returns
    -------
    list of Report
        The reports in the order of the logs, equal to those of `audit`.

    Raises
    ------
    TooFewValidRowsError
        Less than half of the rows of one of the logs are valid.
    """
    thresholds = thresholds or Thresholds()
    if len(logs) < 2:
        terms: dict[str, Any] = {"prices": prices, "thresholds": thresholds}
        return [audit(log, keep_calls=keep_calls, **terms) for log in logs]
    for log in logs:
        _check_validity(log, thresholds)
    calls = place_together([log.frame for log in logs])
    engine = engine_of(calls)
    try:
        counted = CountedCalls.of(logs, calls, engine, thresholds, keys=("log",))
        audits = Audits.of(counted, prices or PriceBook(), thresholds, engine)
        return list(audits.reports(keep_calls=keep_calls))
    finally:
        engine.close()


def _check_validity(log: ReadRows, thresholds: Thresholds) -> None:
    if log.rows and log.valid_pct < thresholds.min_valid_pct:
        raise TooFewValidRowsError(log.valid_pct, thresholds.min_valid_pct, log.invalid.main_reason)
