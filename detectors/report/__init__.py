"""The audit from end to end: a log in, the report document out."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

import narwhals.stable.v2 as nw
import polars as pl

from detectors.calls import arrange, number_groups, price_labelled, read_labels
from detectors.compose import clip_savings, compose_savings
from detectors.contract import (
    AuditSummary,
    InvalidRows,
    PriceSource,
    Report,
    SavingsByDetector,
    Thresholds,
    UnpricedModel,
)
from detectors.engines import Calls
from detectors.errors import TooFewValidRowsError
from detectors.frames import Source, UsageLog, drop_echoes, read
from detectors.prices.book import PriceBook
from detectors.report import spend
from detectors.report.evidence import iso_time
from detectors.report.findings import write_findings
from detectors.report.impacts import Group, Impact, is_below_floor, measure
from detectors.report.methods import METHODS
from detectors.report.money import rounded, units, usd
from detectors.rules import DETECTORS

_PCT_DECIMALS = 9


def audit(
    source: Source | UsageLog,
    *,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
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
    return _Audit.of(_load(source, thresholds), prices or PriceBook(), thresholds).report()


def _load(source: Source | UsageLog, thresholds: Thresholds) -> UsageLog:
    log = source if isinstance(source, UsageLog) else read(source)
    if log.rows and log.valid_pct < thresholds.min_valid_pct:
        raise TooFewValidRowsError(log.valid_pct, thresholds.min_valid_pct, log.invalid.main_reason)
    return log


@dataclass(frozen=True, slots=True, kw_only=True)
class _Records:
    """What is said of all records, priced or not. Times are microseconds since 1970 in UTC."""

    count: int
    echoes: int
    valid_pct: float
    invalid: InvalidRows
    overfull: int
    first_us: int | None
    last_us: int | None

    @classmethod
    def of(cls, frame: pl.DataFrame, echoes: int, valid_pct: float, invalid: InvalidRows) -> Self:
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
            invalid=invalid,
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

    records: _Records
    calls: pl.DataFrame
    groups: dict[int, Group]
    unpriced: tuple[UnpricedModel, ...]
    book: PriceBook
    thresholds: Thresholds

    @classmethod
    def of(cls, log: UsageLog, book: PriceBook, thresholds: Thresholds) -> Self:
        frame, echoes = drop_echoes(log.frame)
        records = _Records.of(frame, echoes, log.valid_pct, log.invalid)
        labelled = read_labels(frame)
        labels = number_groups(labelled)
        models = spend.count_models(frame)
        priced = price_labelled(labelled, labels, book)
        # A million records are large, and from here on only the priced calls are needed.
        del log, frame, labelled
        calls = _polars(arrange(priced))
        groups = spend.find_groups(calls, _polars(labels))
        return cls(
            records=records,
            calls=calls,
            groups=groups,
            unpriced=spend.count_unpriced(models, groups.values()),
            book=book,
            thresholds=thresholds,
        )

    def report(self) -> Report:
        found = self._find()
        flagged = pl.concat(found)
        impacts = measure(flagged, self.groups, self.records.days, self.thresholds)
        shown = [impact for impact in impacts if not is_below_floor(impact, self.thresholds)]
        groups = self.groups.values()
        saved, steps = _sum_savings(found)
        models, other_models = spend.shorten(spend.by_model(groups))
        routes, other_routes = spend.shorten(spend.by_route(groups))
        unpriced, other_unpriced = spend.shorten(self.unpriced)
        days = spend.by_day(self.calls)
        return Report(
            audit=self._summarise(saved, below_floor=len(impacts) - len(shown)),
            findings=write_findings(
                shown,
                flagged,
                self.calls,
                book=self.book,
                days=self.records.days,
                thresholds=self.thresholds,
            ),
            spend_by_model=models,
            spend_by_route=routes,
            spend_by_day=days,
            unpriced=unpriced,
            invalid_rows=self.records.invalid,
            prices=PriceSource(source=self.book.source, version=self.book.version),
            thresholds=self.thresholds,
            spend_by_day_and_model=spend.by_day_and_model(self.calls, self.groups, days, models),
            savings_by_detector=self._savings_by_detector(impacts, steps),
            other_models=other_models,
            other_routes=other_routes,
            other_unpriced=other_unpriced,
            methods=METHODS,
        )

    def _savings_by_detector(
        self, impacts: Sequence[Impact], steps: Sequence[Decimal]
    ) -> tuple[SavingsByDetector, ...]:
        months = Decimal(self.thresholds.days_per_month) / self.records.days
        alone = [Decimal(0) for _ in DETECTORS]
        for impact in impacts:
            alone[impact.place] += impact.monthly_usd
        return tuple(
            SavingsByDetector(
                detector=detector.id,
                alone_usd=rounded(alone[place]),
                composed_usd=rounded(steps[place] * months),
            )
            for place, detector in enumerate(DETECTORS)
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
            equiv_spend=any(self._is_equivalent(group) for group in self.groups.values()),
            below_floor=below_floor,
            overfull_records=records.overfull,
        )

    def _is_equivalent(self, group: Group) -> bool:
        """Whether the group's dollars are a list price for what was not billed so."""
        listing = self.book.find_listing(group.provider, group.model)
        return listing is not None and listing.is_equivalent


def _sum_savings(found: Sequence[pl.DataFrame]) -> tuple[Decimal, list[Decimal]]:
    """What all findings together would save, no dollar counted twice; and each detector's step."""
    combined = compose_savings([nw.from_native(flagged.lazy()) for flagged in found])
    names = ["combined_usd", *(f"step_{place}" for place in range(len(found)))]
    sums = _polars(combined).select(units(name).sum() for name in names).row(0)
    saved, *steps = (usd(each or 0) for each in sums)
    return saved, steps


def _polars(calls: Calls) -> pl.DataFrame:
    frame: pl.DataFrame = calls.collect("polars").to_native()
    return frame
