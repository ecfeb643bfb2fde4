"""The audit, end to end: a log in, a report document out."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

import narwhals.stable.v2 as nw

from detectors.contract import (
    AuditSummary,
    PriceSource,
    SavingsByDetector,
    UnpricedModel,
)
from detectors.engines import Calls, Engine
from detectors.errors import TooFewValidRowsError
from detectors.frames import Source, UsageLog
from detectors.frames.sources import place
from detectors.prices.book import PriceBook
from detectors.prices.calls import arrange, number_groups, price_labelled, read_labels
from detectors.report import spend
from detectors.report.compose import clip_savings, compose_savings
from detectors.report.document import Finding, Report
from detectors.report.evidence import collect_details, iso_time
from detectors.report.findings import write_findings
from detectors.report.impacts import (
    Group,
    Impact,
    is_below_floor,
    measure,
    number,
    sum_flagged,
)
from detectors.report.money import rounded, split, sums, usd
from detectors.report.records import Records
from detectors.rules import DETECTORS, Thresholds
from detectors.rules.methods import METHODS

_PCT_DECIMALS = 9


def audit(
    source: Source | UsageLog,
    *,
    prices: PriceBook | None = None,
    thresholds: Thresholds | None = None,
    engine: str | None = None,
) -> Report:
    """Audit a usage log: its cost, its avoidable spend, and how to fix it.

    Parameters
    ----------
    source : path, binary file, iterable of records or dicts, frame, or UsageLog
        A frame of Polars, pandas, DuckDB or PySpark has one row per call and the columns of
        `UsageRecord`; it is audited on its own engine, and only small results are fetched. A path,
        or a pattern like ``logs/*.parquet``, may name Parquet files.
    prices : PriceBook, optional
        By default, the prices of the installed genai-prices.
    thresholds : Thresholds, optional
        The numbers in the detectors' definitions.
    engine : {"polars", "duckdb", "pyspark"}, optional
        The engine for Parquet files; Polars by default.

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
    log, own = place(source, engine)
    del source  # lets a log without other references be freed when its calls are priced
    try:
        if log.rows and log.valid_pct < thresholds.min_valid_pct:
            raise TooFewValidRowsError(
                log.valid_pct, thresholds.min_valid_pct, log.invalid.main_reason
            )
        records = Records.of(log, own)
        del log
        return _Audit.of(records, prices or PriceBook(), thresholds, own).report()
    finally:
        own.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Audit:
    """A log with priced, sorted calls."""

    records: Records
    calls: Calls
    labels: Calls
    groups: dict[int, Group]
    unpriced: tuple[UnpricedModel, ...]
    book: PriceBook
    thresholds: Thresholds
    engine: Engine

    @classmethod
    def of(cls, records: Records, book: PriceBook, thresholds: Thresholds, engine: Engine) -> Self:
        labelled = read_labels(records.take_calls())
        labels = number_groups(labelled, engine)
        priced = [price_labelled(labelled, labels, book, engine)]
        # Frees the records, which are large: only the priced calls are needed from here on.
        del labelled
        calls = arrange(priced.pop(), engine)
        groups = spend.find_groups(calls, labels, engine)
        return cls(
            records=records,
            calls=calls,
            labels=labels,
            groups=groups,
            unpriced=spend.count_unpriced(records.models, groups.values()),
            book=book,
            thresholds=thresholds,
            engine=engine,
        )

    def report(self) -> Report:
        found = self._find()
        flagged = nw.concat(found, how="vertical")
        sums_of_kinds = self.engine.fetch(sum_flagged(flagged))
        impacts = measure(sums_of_kinds, self.groups, self.records.days, self.thresholds)
        shown = [impact for impact in impacts if not is_below_floor(impact, self.thresholds)]
        groups = self.groups.values()
        saved, steps = _sum_savings(found, self.engine)
        models, other_models = spend.shorten(spend.by_model(groups))
        routes, other_routes = spend.shorten(spend.by_route(groups))
        unpriced, other_unpriced = spend.shorten(self.unpriced)
        days = spend.by_day(self.calls, self.engine)
        return Report(
            audit=self._summarize(saved, below_floor=len(impacts) - len(shown)),
            findings=self._write(shown, flagged),
            spend_by_model=models,
            spend_by_route=routes,
            spend_by_day=days,
            unpriced=unpriced,
            invalid_rows=self.records.invalid,
            prices=PriceSource(
                source=self.book.source,
                version=self.book.version,
                negotiated=self.book.negotiated,
            ),
            thresholds=self.thresholds,
            spend_by_day_and_model=spend.by_day_and_model(
                self.calls, self.labels, days, models, self.engine
            ),
            savings_by_detector=self._savings_by_detector(impacts, steps),
            other_models=other_models,
            other_routes=other_routes,
            other_unpriced=other_unpriced,
            methods=METHODS,
        )

    def _write(self, shown: Sequence[Impact], flagged: Calls) -> tuple[Finding, ...]:
        numbered = number(shown)
        details = collect_details(
            list(numbered.values()),
            flagged,
            self.calls,
            self.engine,
            most=self.thresholds.evidence_calls,
        )
        return write_findings(
            numbered,
            details,
            book=self.book,
            days=self.records.days,
            thresholds=self.thresholds,
        )

    def _savings_by_detector(
        self, impacts: Sequence[Impact], steps: Sequence[Decimal]
    ) -> tuple[SavingsByDetector, ...]:
        months = Decimal(self.thresholds.days_per_month) / self.records.days
        alone = [Decimal(0) for _ in DETECTORS]
        for impact in impacts:
            alone[impact.detector_index] += impact.monthly_usd
        return tuple(
            SavingsByDetector(
                detector=detector.id,
                alone_usd=rounded(alone[index]),
                composed_usd=rounded(steps[index] * months),
            )
            for index, detector in enumerate(DETECTORS)
        )

    def _find(self) -> list[Calls]:
        """Return the calls that each detector flags."""
        plans = [
            detector.find(self.calls, self.thresholds).with_columns(
                nw.lit(index, nw.Int8).alias("detector")
            )
            for index, detector in enumerate(DETECTORS)
        ]
        return self.engine.keep_all(plans)

    def _summarize(self, saved_usd: Decimal, *, below_floor: int) -> AuditSummary:
        records = self.records
        total = sum((group.spend_usd for group in self.groups.values()), Decimal(0))
        saved = clip_savings(saved_usd, total)
        months = Decimal(self.thresholds.days_per_month) / records.days
        return AuditSummary(
            records=records.count,
            valid_pct=records.valid_pct,
            echoes_dropped=records.duplicate_rows,
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
        """Check whether the group's dollars are a list-price cost and not a bill."""
        listing = self.book.find_listing(group.provider, group.model)
        return listing is not None and listing.is_equivalent


def _sum_savings(found: Sequence[Calls], engine: Engine) -> tuple[Decimal, list[Decimal]]:
    """Sum the combined savings, each dollar counted once, and each detector's step."""
    names = ["combined_usd", *(f"step_{index}" for index in range(len(found)))]
    combined = split(compose_savings(found), *names)
    (row,) = engine.fetch(combined.select(*sums(*names)))
    saved, *steps = (usd(row, name) for name in names)
    return saved, steps
