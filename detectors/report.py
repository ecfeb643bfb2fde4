"""The audit from end to end: a log in, the report document out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Self

import narwhals.stable.v2 as nw
import polars as pl

from detectors import spend
from detectors.calls import arrange, number_groups, price_records
from detectors.compose import clip_savings, compose_savings
from detectors.contract import AuditSummary, PriceSource, Report, Thresholds, UsageRecord
from detectors.engines import Calls, keep
from detectors.errors import TooFewValidRowsError
from detectors.evidence import iso_time
from detectors.findings import write_findings
from detectors.frames import UsageLog, drop_echoes, read
from detectors.impacts import Group, is_below_floor, measure
from detectors.money import rounded, units, usd
from detectors.prices.book import PriceBook
from detectors.rules import DETECTORS

Source = UsageLog | str | Path | IO[bytes] | Iterable[UsageRecord | dict[str, Any]] | pl.DataFrame

_PCT_DECIMALS = 9


def audit(
    source: Source, *, prices: PriceBook | None = None, thresholds: Thresholds | None = None
) -> Report:
    """Audit a usage log: what it cost, where it was wasteful, and what to do about it.

    Parameters
    ----------
    source
        A path, an open binary file, an iterable of records (or dicts of their fields), a frame of
        calls, or a log that `read` gave.
    prices
        The price book; that of the installed genai-prices by default.
    thresholds
        The numbers of the definitions, where not the default ones.

    Raises
    ------
    TooFewValidRowsError
        Less than half of the rows are valid.
    UnreadableLogError, ContractError
        As `read` does.
    """
    thresholds = thresholds or Thresholds()
    log = source if isinstance(source, UsageLog) else read(source)
    if log.rows and log.valid_pct < thresholds.min_valid_pct:
        raise TooFewValidRowsError(log.valid_pct, thresholds.min_valid_pct)
    return _Audit.of(log, prices or PriceBook(), thresholds).report()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """What is said of all records, priced or not. Times are microseconds since 1970 in UTC."""

    count: int
    echoes: int
    valid_pct: float
    overfull: int
    first_us: int | None
    last_us: int | None

    @classmethod
    def of(cls, frame: pl.DataFrame, echoes: int, valid_pct: float) -> Self:
        cached = pl.col("cached_tokens") + pl.col("cache_write_tokens")
        first, last, overfull = frame.select(
            pl.col("ts").min().dt.timestamp("us").alias("first"),
            pl.col("ts").max().dt.timestamp("us").alias("last"),
            (cached > pl.col("prompt_tokens")).sum().alias("overfull"),
        ).row(0)
        return cls(
            count=frame.height,
            echoes=echoes,
            valid_pct=valid_pct,
            overfull=overfull,
            first_us=first,
            last_us=last,
        )

    @property
    def days(self) -> int:
        """Calendar days in UTC from the first call to the last, both included."""
        if self.first_us is None or self.last_us is None:
            return 1
        return self.last_us // spend.DAY_US - self.first_us // spend.DAY_US + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Audit:
    """A log whose calls are priced and in order."""

    log: UsageLog
    records: _Records
    priced: pl.DataFrame
    calls: pl.DataFrame
    groups: dict[int, Group]
    book: PriceBook
    thresholds: Thresholds

    @classmethod
    def of(cls, log: UsageLog, book: PriceBook, thresholds: Thresholds) -> Self:
        frame, echoes = drop_echoes(log.frame)
        priced = keep(price_records(frame, book))
        labels = number_groups(priced)
        calls = _polars(arrange(priced, labels))
        return cls(
            log=log,
            records=_Records.of(frame, echoes, log.valid_pct),
            priced=_polars(priced),
            calls=calls,
            groups=spend.find_groups(calls, _polars(labels)),
            book=book,
            thresholds=thresholds,
        )

    def report(self) -> Report:
        found = self._find()
        flagged = pl.concat(found)
        impacts = measure(flagged, self.groups, self.records.days, self.thresholds)
        shown = [impact for impact in impacts if not is_below_floor(impact, self.thresholds)]
        groups = self.groups.values()
        return Report(
            audit=self._summarise(_sum_savings(found), below_floor=len(impacts) - len(shown)),
            findings=write_findings(
                shown, flagged, self.calls, book=self.book, thresholds=self.thresholds
            ),
            spend_by_model=spend.by_model(groups),
            spend_by_route=spend.by_route(groups),
            spend_by_day=spend.by_day(self.calls),
            unpriced=spend.count_unpriced(self.priced),
            invalid_rows=self.log.invalid,
            prices=PriceSource(source=self.book.source, version=self.book.version),
            thresholds=self.thresholds,
        )

    def _find(self) -> list[pl.DataFrame]:
        """What each detector flags."""
        calls: Calls = nw.from_native(self.calls.lazy())
        plans = [detector.find(calls, self.thresholds).to_native() for detector in DETECTORS]
        return [
            flagged.with_columns(pl.lit(place, pl.Int8).alias("detector"))
            for place, flagged in enumerate(pl.collect_all(plans))
        ]

    def _summarise(self, saved_usd: Decimal, *, below_floor: int) -> AuditSummary:
        records = self.records
        total = sum((group.spend_usd for group in self.groups.values()), Decimal(0))
        saved = clip_savings(saved_usd, total)
        months = Decimal(self.thresholds.days_per_month) / records.days
        return AuditSummary(
            records=records.count,
            valid_pct=records.valid_pct,
            echoes_dropped=records.echoes,
            observed_days=records.days,
            first_call=None if records.first_us is None else iso_time(records.first_us),
            last_call=None if records.last_us is None else iso_time(records.last_us),
            total_spend_usd=rounded(total),
            projected_spend_usd=rounded(total * months),
            savings_pct=round(float(saved / total * 100), _PCT_DECIMALS) if total else 0.0,
            projected_savings_usd=rounded(saved * months),
            equiv_spend=spend.is_equivalent(self.priced),
            below_floor=below_floor,
            overfull_records=records.overfull,
        )


def _sum_savings(found: Sequence[pl.DataFrame]) -> Decimal:
    """What all findings together would save, no dollar counted twice."""
    combined = compose_savings([nw.from_native(flagged.lazy()) for flagged in found])
    return usd(_polars(combined).select(units("combined_usd").sum()).item() or 0)


def _polars(calls: Calls) -> pl.DataFrame:
    frame: pl.DataFrame = calls.collect("polars").to_native()
    return frame
