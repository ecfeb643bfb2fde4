"""The audit, end to end: a log in, a report document out."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from detectors.errors import TooFewValidRowsError
from detectors.formats.csv_logs.mapping import Mapped
from detectors.frames import Source, UsageLog, read
from detectors.frames.inputs import find_spark_frame
from detectors.frames.parts import InMemory, Parts, Share
from detectors.frames.sources import place, place_together
from detectors.frames.usage_log import ReadRows
from detectors.prices.book import PriceBook
from detectors.report.pipeline import audit_logs
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
    scratch: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Audit a usage log: its cost, its avoidable spend, and how to fix it.

    Parameters
    ----------
    source : path, binary file, iterable of records or dicts, frame, or UsageLog
        A frame of Polars, pandas, DuckDB or PySpark, or a table, reader or dataset of Arrow, has
        one row per call and the columns of `UsageRecord`. It is read, and audited with Polars. A
        path, or a pattern like ``s3://logs/*.parquet``, may name Parquet files.
    mapping : dict or ColumnMapping, optional
        The columns of a CSV with other names, as for `read`.
    prices : PriceBook, optional
        By default, the prices of the installed genai-prices.
    thresholds : Thresholds, optional
        The numbers in the detectors' definitions.
    engine : {"polars", "duckdb", "pyspark"}, optional
        What reads Parquet files; Polars by default.
    keep_calls : bool, default True
        Keep the priced calls in memory with the report, for `Report.calls`. Of a source that is
        audited in several parts, `Report.calls` reads a part again instead.
    scratch : path, optional
        The folder for calls that don't fit into memory, about 60 bytes each; by default that for
        temporary files.
    progress : callable of (int, int), optional
        Receives the number of steps that are done, and of all; on Spark, also while a step runs.
        What it raises ends the audit.

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
        Audits can't read frames of that library or with that engine, or a package is missing.
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
    if mapping is not None:
        source = read(source, mapping=mapping)
    rows = source
    if (frame := find_spark_frame(source, engine)) is not None:
        spark = import_module("detectors.distributed.spark")
        rows = spark.gather(frame, progress)
        if rows is None:
            terms = {"prices": prices, "thresholds": thresholds}
            report: Report = spark.audit(frame, keep_calls=keep_calls, progress=progress, **terms)
            return report
        source, engine = frame, None
    log = place(rows, engine, scratch=scratch)
    check_validity(log, thresholds)
    again = partial(reread, source, engine) if can_be_read_again(source) else None
    del source, rows  # lets a log without other references be freed when its calls are priced
    book = prices or PriceBook()
    more: dict[str, Any] = {"keep_calls": keep_calls, "reread": again, "progress": progress}
    try:
        return audit_logs([log], log.calls, book, thresholds, **more).reports[0]
    finally:
        log.calls.close()


def can_be_read_again(source: object) -> bool:
    """Check that the source isn't used up by reading it, nor a log that should be freed."""
    return isinstance(source, str | os.PathLike | UsageLog) or hasattr(type(source), "columns")


def reread(source: Source | UsageLog, engine: str | None, part: Share) -> Parts:
    return place(source, engine, only=part).calls


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
        check_validity(log, thresholds)
    calls = InMemory([place_together([log.frame for log in logs]).collect()], is_one_part=True)
    book = prices or PriceBook()
    audited = audit_logs(logs, calls, book, thresholds, keys=("log",), keep_calls=keep_calls)
    return audited.reports


def check_validity(log: ReadRows, thresholds: Thresholds) -> None:
    if log.rows and log.valid_pct < thresholds.min_valid_pct:
        raise TooFewValidRowsError(log.valid_pct, thresholds.min_valid_pct, log.invalid.main_reason)
