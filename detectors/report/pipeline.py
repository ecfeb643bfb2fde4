"""The audit of some logs on one engine: priced calls, flagged calls, and a report of each log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Self

import narwhals.stable.v2 as nw

from detectors.contract import (
    AuditSummary,
    PriceSource,
    SavingsByDetector,
    SpendByDay,
    SpendByDayAndModel,
    SpendByModel,
)
from detectors.engines import Calls, Engine, Row
from detectors.prices.book import PriceBook
from detectors.prices.calls import arrange, number_groups, price_labelled, read_labels
from detectors.report import spend
from detectors.report.compose import clip_savings, compose_savings
from detectors.report.daily import by_day, by_day_and_model
from detectors.report.document import Finding, Report
from detectors.report.evidence import Detail, collect_details, iso_time
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
from detectors.report.records import CountedCalls, Records
from detectors.rules import DETECTORS, Thresholds
from detectors.rules.methods import METHODS

_PCT_DECIMALS = 9
# Up to so many calls, planning the queries takes longer than computing them.
_FEW_CALLS = 20_000

# What all findings of a log save together, and the step of each detector.
Savings = tuple[Decimal, list[Decimal]]


@dataclass(frozen=True, slots=True)
class LogSpend:
    """The spend of one log."""

    groups: Sequence[Group]
    models: tuple[SpendByModel, ...]
    days: tuple[SpendByDay, ...]
    days_and_models: tuple[SpendByDayAndModel, ...]

    def sections(self, counted: Sequence[Row]) -> dict[str, Any]:
        """Return the report's lists; `counted` are the log's models, priced or not."""
        models, other_models = spend.shorten(self.models)
        routes, other_routes = spend.shorten(spend.by_route(self.groups))
        unpriced, other_unpriced = spend.shorten(spend.count_unpriced(counted, self.groups))
        return {
            "spend_by_model": models,
            "spend_by_route": routes,
            "spend_by_day": self.days,
            "unpriced": unpriced,
            "spend_by_day_and_model": self.days_and_models,
            "other_models": other_models,
            "other_routes": other_routes,
            "other_unpriced": other_unpriced,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Audits:
    """Logs with priced, sorted calls; the column in `keys` numbers them if there are several."""

    logs: Sequence[Records]
    keys: tuple[str, ...]
    calls: Calls
    labels: Calls
    groups: dict[int, Group]
    book: PriceBook
    thresholds: Thresholds
    engine: Engine

    @classmethod
    def of(
        cls, counted: CountedCalls, book: PriceBook, thresholds: Thresholds, engine: Engine
    ) -> Self:
        keys = counted.keys
        engine.has_few_calls = sum(log.count for log in counted.logs) <= _FEW_CALLS
        labelled = read_labels(counted.take_calls(), keys)
        labels = number_groups(labelled, engine, keys)
        priced = [price_labelled(labelled, labels, book, engine, keys)]
        # Frees the records, which are large: only the priced calls are needed from here on.
        del labelled
        calls = arrange(priced.pop(), engine)
        return cls(
            logs=counted.logs,
            keys=keys,
            calls=calls,
            labels=labels,
            groups=spend.find_groups(calls, labels, engine),
            book=book,
            thresholds=thresholds,
            engine=engine,
        )

    def reports(self) -> Iterator[Report]:
        """Yield the report of each log."""
        found = self._find()
        flagged = nw.concat(found, how="vertical")
        impacts = self._measure(flagged)
        shown = [
            number(impact for impact in some if not is_below_floor(impact, self.thresholds))
            for some in impacts
        ]
        details = iter(self._collect_details(shown, flagged))
        saved = self._sum_savings(found)
        spent = self._sum_spend()
        for index, log in enumerate(self.logs):
            own = [next(details) for _ in shown[index]]
            below_floor = len(impacts[index]) - len(shown[index])
            yield Report(
                audit=self._summarize(log, spent[index].groups, saved[index][0], below_floor),
                findings=self._write(log, shown[index], own),
                savings_by_detector=self._savings_by_detector(log, impacts[index], saved[index]),
                invalid_rows=log.invalid,
                prices=PriceSource(
                    source=self.book.source,
                    version=self.book.version,
                    negotiated=self.book.negotiated,
                ),
                thresholds=self.thresholds,
                methods=METHODS,
                **spent[index].sections(log.models),
            )

    def _find(self) -> list[Calls]:
        """Return the calls that each detector flags."""

        def plan(calls: Calls) -> list[Calls]:
            return [
                detector.find(calls, self.thresholds).with_columns(
                    nw.lit(index, nw.Int8).alias("detector")
                )
                for index, detector in enumerate(DETECTORS)
            ]

        return self.engine.keep_all(self.engine.apply(("find", self.thresholds), plan, self.calls))

    def _measure(self, flagged: Calls) -> list[list[Impact]]:
        """Return the impacts of each log."""
        (summed,) = self.engine.apply("flagged", lambda few: [sum_flagged(few)], flagged)
        days = [log.days for log in self.logs]
        by_log: list[list[Impact]] = [[] for _ in self.logs]
        for impact in measure(self.engine.fetch(summed), self.groups, days, self.thresholds):
            by_log[impact.group.log].append(impact)
        return by_log

    def _collect_details(
        self, shown: Sequence[dict[str, Impact]], flagged: Calls
    ) -> Sequence[Detail]:
        impacts = [impact for numbered in shown for impact in numbered.values()]
        most = self.thresholds.evidence_calls
        return collect_details(impacts, flagged, self.calls, self.engine, most=most)

    def _sum_savings(self, found: Sequence[Calls]) -> list[Savings]:
        """Sum each log's combined savings, each dollar counted once, and each detector's step."""
        names = ["combined_usd", *(f"step_{index}" for index in range(len(found)))]

        def plan(calls: Calls, *found: Calls) -> list[Calls]:
            combined = split(compose_savings(found), *names)
            if not self.keys:
                return [combined.select(*sums(*names))]
            logs = calls.select("number", *self.keys)
            numbered = combined.join(logs, on="number", how="inner")
            return [numbered.group_by(*self.keys).agg(*sums(*names))]

        (summed,) = self.engine.apply(("savings", self.keys), plan, self.calls, *found)
        saved: list[Savings] = [(Decimal(0), [Decimal(0)] * len(found)) for _ in self.logs]
        for row in self.engine.fetch(summed):
            combined, *steps = (usd(row, name) for name in names)
            saved[row.get("log", 0)] = combined, steps
        return saved

    def _sum_spend(self) -> list[LogSpend]:
        """Return the spend of each log by model, route and day."""
        by_log: list[list[Group]] = [[] for _ in self.logs]
        for group in self.groups.values():
            by_log[group.log].append(group)
        models = [spend.by_model(groups) for groups in by_log]
        days = by_day(self.calls, self.engine, len(self.logs), self.keys)
        daily = by_day_and_model(self.calls, self.labels, days, models, self.engine)
        return [LogSpend(*each) for each in zip(by_log, models, days, daily, strict=True)]

    def _write(
        self, log: Records, numbered: dict[str, Impact], details: Sequence[Detail]
    ) -> tuple[Finding, ...]:
        return write_findings(
            numbered, details, book=self.book, days=log.days, thresholds=self.thresholds
        )

    def _savings_by_detector(
        self, log: Records, impacts: Sequence[Impact], saved: Savings
    ) -> tuple[SavingsByDetector, ...]:
        months = Decimal(self.thresholds.days_per_month) / log.days
        alone = [Decimal(0) for _ in DETECTORS]
        for impact in impacts:
            alone[impact.detector_index] += impact.monthly_usd
        return tuple(
            SavingsByDetector(
                detector=detector.id,
                alone_usd=rounded(alone[index]),
                composed_usd=rounded(saved[1][index] * months),
            )
            for index, detector in enumerate(DETECTORS)
        )

    def _summarize(
        self, log: Records, groups: Sequence[Group], saved_usd: Decimal, below_floor: int
    ) -> AuditSummary:
        total = sum((group.spend_usd for group in groups), Decimal(0))
        saved = clip_savings(saved_usd, total)
        months = Decimal(self.thresholds.days_per_month) / log.days
        return AuditSummary(
            records=log.count,
            valid_pct=log.valid_pct,
            echoes_dropped=log.duplicate_rows,
            observed_days=log.days,
            first_call=None if log.first_us is None else iso_time(log.first_us),
            last_call=None if log.last_us is None else iso_time(log.last_us),
            total_spend_usd=rounded(total),
            projected_spend_usd=rounded(total * months),
            savings_pct=round(float(saved / total * 100), _PCT_DECIMALS) if total else 0.0,
            projected_savings_usd=rounded(saved * months),
            equiv_spend=any(self._is_equivalent(group) for group in groups),
            below_floor=below_floor,
            overfull_records=log.overfull,
        )

    def _is_equivalent(self, group: Group) -> bool:
        """Check whether the group's dollars are a list-price cost and not a bill."""
        listing = self.book.find_listing(group.provider, group.model)
        return listing is not None and listing.is_equivalent
