"""The audit of some logs on one engine: priced calls, flagged calls, and a report of each log."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Self

import msgspec
import narwhals.stable.v2 as nw
from msgspec import UNSET

from detectors.contract import (
    AuditSummary,
    MissingRate,
    PlanUsage,
    SavingsByDetector,
)
from detectors.engines import Calls, Engine
from detectors.prices import model_data
from detectors.prices.book import PriceBook
from detectors.prices.calls import arrange, number_groups, price_labelled, read_labels
from detectors.prices.updates import describe
from detectors.report import spend
from detectors.report.compose import (
    COMBINED,
    EVERY_CLAIM,
    Savings,
    compose_savings,
    find_columns,
    headline_savings,
)
from detectors.report.counting.missing_rates import count_missing_rates
from detectors.report.counting.projection import DAY_US, iso_time
from detectors.report.counting.quality import measure_quality, sum_reported
from detectors.report.counting.records import CountedCalls, Records
from detectors.report.daily import by_day, by_day_and_model
from detectors.report.evidence import Detail, collect_details
from detectors.report.findings import write_findings
from detectors.report.impacts import (
    Group,
    Impact,
    add_days,
    drop_findings,
    limit_lows,
    measure,
)
from detectors.report.money import rounded, sum_usd, usd
from detectors.report.plan_usage import sum_plan_usage
from detectors.report.result.calls import CallSource, FlaggedFrames, Reopen
from detectors.report.result.document import Report, attach_calls
from detectors.report.selection import Selection
from detectors.rules import DETECTORS, Thresholds
from detectors.rules.methods import METHODS

_PCT_DECIMALS = 9
_DAYS_DECIMALS = 9
_SUMMED_COLUMNS = 3
_MOST_OUTLIER_TIMES = 10


class Audits(msgspec.Struct, frozen=True, kw_only=True):
    """Logs with priced, sorted calls; the column in `keys` numbers them if there are several."""

    logs: Sequence[Records]
    keys: tuple[str, ...]
    calls: Calls
    labels: Calls
    spent: Calls
    groups: dict[int, Group]
    plan_usage: dict[int, PlanUsage]
    missing: dict[int, tuple[MissingRate, ...]]
    book: PriceBook
    thresholds: Thresholds
    engine: Engine

    @classmethod
    def of(
        cls, counted: CountedCalls, book: PriceBook, thresholds: Thresholds, engine: Engine
    ) -> Self:
        keys, included = counted.keys, counted.take_included()
        plan_usage = {} if included is None else sum_plan_usage(included, book, engine, keys)
        del included
        labelled = read_labels(counted.take_calls(engine), keys)
        labels = number_groups(labelled, engine, keys)
        priced = price_labelled(labelled, labels, book, engine, keys)
        # Frees the records, which are large: only the priced calls are needed from here on.
        del labelled
        missing = count_missing_rates(priced, book, engine)
        calls = arrange(priced, engine)
        spent = spend.sum_days(calls, engine, keys)
        return cls(
            logs=counted.logs,
            keys=keys,
            calls=calls,
            labels=labels,
            spent=spent,
            groups=spend.find_groups(spent, labels, engine),
            plan_usage=plan_usage,
            missing=missing,
            book=book,
            thresholds=thresholds,
            engine=engine,
        )

    def reports(self, *, keep_calls: bool, reopen: Reopen | None = None) -> Iterator[Report]:
        """Yield the report of each log.

        Reports with `keep_calls` refer to the calls, or get them from `reopen` if it is given.
        """
        frames = self.find()
        found, reopen = frames.found, reopen or frames.reopen
        selections = self._select(frames.by_day)
        details = iter(self._collect_details(selections, found))
        sums = self._sum_savings(found, selections)
        spent = self._sum_spend()
        reported = sum_reported(self.calls, self.engine, self.groups)
        for index, (log, selection) in enumerate(zip(self.logs, selections, strict=True)):
            own = [next(details) for _ in selection.listed]
            saved = self._headline(log, spent[index].groups, sums[index])
            plan_usage = self.plan_usage.get(index)
            audit = self._summarize(log, spent[index].groups, saved, selection, plan_usage)
            lists = spent[index].sections(log.models, self.book)
            models, period = lists["spend_by_model"], (audit.first_call, audit.last_call)
            report = Report(
                audit=audit,
                findings=write_findings(
                    selection.listed,
                    own,
                    book=self.book,
                    projection=log.projection,
                    thresholds=self.thresholds,
                ),
                savings_by_detector=self._savings_by_detector(selection, saved),
                invalid_rows=log.invalid,
                prices=describe(self.book, models, lists["unpriced"], *period),
                thresholds=self.thresholds,
                methods=METHODS,
                data_quality=measure_quality(
                    log,
                    spent[index].groups,
                    self._is_equivalent,
                    reported[index],
                    self.missing.get(index, ()),
                ),
                plan_usage=plan_usage or UNSET,
                **selection.sections(),
                **lists,
            )
            if keep_calls:
                attach_calls(report, CallSource(selection.listed, reopen))
            yield report

    def find(self) -> FlaggedFrames:
        """Return the calls, and those that each detector flags."""

        def plan(calls: Calls) -> Iterator[Calls]:
            for index, detector in enumerate(DETECTORS):
                found = detector.find(calls, self.thresholds)
                yield found.with_columns(nw.lit(index, nw.Int8).alias("detector"))

        found = self.engine.keep_all(("find", self.thresholds), plan, self.calls)
        return FlaggedFrames(self.calls, found, self.engine)

    def _select(self, by_day: Calls) -> list[Selection]:
        """Measure the impacts of each log, and select its findings."""
        (summed,) = self.engine.apply("impacts", lambda days: [add_days(days)], by_day)
        factors = [log.projection.factor for log in self.logs]
        measured = measure(self.engine.fetch(summed), self.groups, factors)
        return [
            Selection.of(impacts, log.projection, self.thresholds)
            for log, impacts in zip(self.logs, measured, strict=True)
        ]

    def _collect_details(
        self, selections: Sequence[Selection], found: Sequence[Calls]
    ) -> Sequence[Detail]:
        impacts = [impact for selection in selections for impact in selection.listed.values()]
        most = self.thresholds.evidence_calls
        return collect_details(impacts, found, self.calls, self.engine, most=most)

    def _sum_savings(
        self, found: Sequence[Calls], selections: Sequence[Selection]
    ) -> list[dict[str, Decimal]]:
        """Sum the composed savings of each log's window."""
        losing = [each for selection in selections for each in selection.losing]
        priced = [each for selection in selections for each in selection.priced]
        wider = [each for selection in selections for each in selection.wider]
        claims = frozenset((each.detector_index, each.kind.confidence) for each in priced + wider)
        saved = [dict.fromkeys(COMBINED, Decimal(0)) for _ in self.logs]
        if not claims:
            return saved
        largest = None if self.engine.has_few_calls else _find_largest(priced + wider)
        if self.engine.has_few_calls and self.engine.has_planned("savings"):
            # A process that has audited before audits on: one plan for all claims is reused.
            claims = EVERY_CLAIM
        counting = [
            limit_lows(drop_findings(calls, dropped, self.engine), limited, self.engine)
            for calls, dropped, limited in zip(
                found, _by_detector(losing), _by_detector(priced), strict=True
            )
        ]

        def plan(calls: Calls, *found: Calls) -> list[Calls]:
            combined = compose_savings(found, claims, largest)
            if not self.keys:
                return [combined]
            logs = calls.select("number", *self.keys)
            return [combined.join(logs, on="number", how="inner")]

        name = "savings", self.keys, claims
        (combined,) = self.engine.apply(name, plan, self.calls, *counting)
        columns = find_columns(claims)
        summed = self._sum_columns(
            self.engine.keep(combined), list(dict.fromkeys(columns.values()))
        )
        for log, own in summed.items():
            saved[log] |= {name: own[column] for name, column in columns.items()}
        return saved

    def _sum_columns(self, combined: Calls, names: Sequence[str]) -> dict[int, dict[str, Decimal]]:
        """Return the sums by log."""
        # A few columns at a time: all of them at once, in parts, would take most of the memory.
        size = len(names) if self.engine.has_few_calls else _SUMMED_COLUMNS
        summed: dict[int, dict[str, Decimal]] = defaultdict(dict)
        for first in range(0, len(names), size):
            some = names[first : first + size]
            for row in self.engine.fetch(self._sum(combined, some)):
                summed[row.get("log", 0)] |= {name: usd(row, name) for name in some}
        return summed

    def _sum(self, combined: Calls, names: Sequence[str]) -> Calls:
        def plan(combined: Calls) -> list[Calls]:
            return [sum_usd(combined.select(*self.keys, *names), *names, by=self.keys)]

        (summed,) = self.engine.apply(("sums", self.keys, tuple(names)), plan, combined)
        return summed

    def _sum_spend(self) -> list[spend.LogSpend]:
        """Return the spend of each log by model, route and day."""
        by_log: list[list[Group]] = [[] for _ in self.logs]
        for group in self.groups.values():
            by_log[group.log].append(group)
        models = [spend.by_model(groups) for groups in by_log]
        days = by_day(self.spent, self.engine, len(self.logs), self.keys)
        daily = by_day_and_model(self.spent, self.labels, days, models, self.engine)
        return [spend.LogSpend(*each) for each in zip(by_log, models, days, daily, strict=True)]

    def _headline(
        self, log: Records, groups: Sequence[Group], summed: Mapping[str, Decimal]
    ) -> Savings:
        spent = sum((group.window_usd for group in groups), Decimal(0))
        return headline_savings(summed, spent, log.projection.factor)

    def _savings_by_detector(
        self, selection: Selection, saved: Savings
    ) -> tuple[SavingsByDetector, ...]:
        alone = [Decimal(0) for _ in DETECTORS]
        for impact in selection.priced:
            alone[impact.detector_index] += impact.monthly_usd
        return tuple(
            SavingsByDetector(
                detector=detector.id,
                alone_usd=rounded(alone[index]),
                composed_usd=rounded(saved.steps[index]),
            )
            for index, detector in enumerate(DETECTORS)
        )

    def _summarize(
        self,
        log: Records,
        groups: Sequence[Group],
        saved: Savings,
        selection: Selection,
        plan_usage: PlanUsage | None,
    ) -> AuditSummary:
        period = log.projection
        total = sum((group.spend_usd for group in groups), Decimal(0))
        spent = sum((group.window_usd for group in groups), Decimal(0))
        claimed = saved.verified + saved.estimated
        monthly = spent * period.factor
        has_value = plan_usage is not None and plan_usage.calls > plan_usage.unpriced_calls
        return AuditSummary(
            records=log.count + log.included,
            valid_pct=log.valid_pct,
            echoes_dropped=log.duplicate_rows,
            observed_days=period.observed_days,
            first_call=_iso(period.first_us),
            last_call=_iso(period.last_us),
            total_spend_usd=rounded(total),
            projected_spend_usd=rounded(monthly),
            savings_pct=round(float(claimed / monthly * 100), _PCT_DECIMALS) if monthly else 0.0,
            projected_savings_usd=rounded(claimed),
            equiv_spend=has_value or any(self._is_equivalent(group) for group in groups),
            below_floor=selection.below_floor,
            overfull_records=log.overfull,
            projection=period.kind,
            span_days=round(float(period.span_us / DAY_US), _DAYS_DECIMALS),
            window_start=_iso(period.window_start_us),
            monthly_factor=float(period.factor),
            window_spend_usd=rounded(spent),
            verified_savings_usd=rounded(saved.verified),
            estimated_savings_usd=rounded(saved.estimated),
            estimated_savings_low_usd=rounded(saved.estimated_low),
            estimated_savings_high_usd=rounded(saved.estimated_high),
            conditional_savings_usd=rounded(saved.conditional),
            conditional_savings_low_usd=rounded(saved.conditional_low),
            conditional_savings_high_usd=rounded(saved.conditional_high),
            included_calls=log.included or UNSET,
            outlier_calls=period.outliers,
            outlier_times=tuple(map(iso_time, period.outlier_us[:_MOST_OUTLIER_TIMES])),
        )

    def _is_equivalent(self, group: Group) -> bool:
        """Check whether the group's dollars are a list-price cost and not a bill."""
        if model_data.is_flat_rate(group.provider):
            return False  # the records say that these calls are on an invoice
        listing = self.book.find_listing(group.provider, group.model)
        return listing is not None and listing.is_equivalent


def _by_detector(impacts: Sequence[Impact]) -> list[list[Impact]]:
    by_detector: list[list[Impact]] = [[] for _ in DETECTORS]
    for impact in impacts:
        by_detector[impact.detector_index].append(impact)
    return by_detector


def _find_largest(impacts: Sequence[Impact]) -> int:
    """Return the index of the detector that flags most of the calls of these impacts."""
    calls = Counter[int]()
    for impact in impacts:
        calls[impact.detector_index] += impact.ever_calls
    return max(calls, key=calls.__getitem__)


def _iso(microseconds: int | None) -> str | None:
    return None if microseconds is None else iso_time(microseconds)
