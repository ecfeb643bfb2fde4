"""Audits the parts of some logs, and merges what was found in them to the report of each log.

Sums are of integers and lists are sorted, so that neither the number of parts nor their order
shows.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from threading import Lock
from typing import Final

import msgspec
from msgspec import UNSET

from detectors.contract import AuditSummary, PlanUsage, SavingsByDetector
from detectors.engine import Row, planned_for
from detectors.frames.parts import Parts, Share
from detectors.frames.usage_log import ReadRows
from detectors.prices import model_data
from detectors.prices.book import PriceBook
from detectors.prices.calls import PricedCalls, read_labels
from detectors.prices.table import Cells
from detectors.prices.updates import describe
from detectors.report import spend
from detectors.report.compose import COMBINED, Savings, headline_savings
from detectors.report.counting import counts
from detectors.report.counting.counts import Counts
from detectors.report.counting.missing_rates import list_missing_rates
from detectors.report.counting.projection import DAY_US, iso_time
from detectors.report.counting.quality import measure_quality
from detectors.report.counting.records import Records
from detectors.report.findings import write_findings
from detectors.report.impacts import Group
from detectors.report.money import rounded
from detectors.report.part import AuditFacts, Job, PartResult, audit_part, find, open_part
from detectors.report.plan_usage import plan_usage_of
from detectors.report.result.calls import CallSource, FlaggedFrames, Reopen
from detectors.report.result.document import Report, attach_calls
from detectors.report.selection import Selection
from detectors.rules import DETECTORS, Thresholds
from detectors.rules.detector import Facts
from detectors.rules.methods import METHODS
from detectors.rules.norms import find_norms
from detectors.threads import in_turn

_PCT_DECIMALS: Final = 9
_DAYS_DECIMALS: Final = 9
_MOST_OUTLIER_TIMES: Final = 10
_PARTS_AT_ONCE: Final = 2
_MOST_DETAILS: Final = 2_000  # of 30 KB, while more parts are audited

# Reads the calls of one part again.
Reread = Callable[[Share], Parts]
Progress = Callable[[int, int], None]


class Audited(msgspec.Struct, frozen=True):
    """The reports of some logs, and the savings of each finding by day, also by log."""

    reports: list[Report]
    finding_days: list[dict[str, list[Row]]]


def audit_logs(
    logs: Sequence[ReadRows],
    parts: Parts,
    book: PriceBook,
    thresholds: Thresholds,
    *,
    keys: tuple[str, ...] = (),
    keep_calls: bool = True,
    reread: Reread | None = None,
    progress: Progress | None = None,
) -> Audited:
    """Audit logs whose calls are in these parts; the column in `keys` numbers several logs.

    With `keep_calls`, the reports refer to the calls of a single part, which are in memory, or read
    one of several parts again with `reread`. `progress` receives the number of steps that are done
    and of all; what it raises ends the audit.
    """
    with planned_for(sum(log.rows for log in logs)):
        job = Job(
            cells=Cells.of(read_labels(parts.scan(), keys), book),
            thresholds=thresholds,
            keys=keys,
            has_each_call_once=all(log.is_account for log in logs),
            is_counted=logs[0].counted is not None,
        )
        # Some steps of a part leave a processor idle; two on disk would take too much memory.
        at_once = min(parts.count, _PARTS_AT_ONCE) if parts.in_memory else 1
        taking, kept = Lock(), [list[PricedCalls]() for _ in range(parts.count)]

        def open_one(number: int) -> Counts:
            with taking:
                only_reference = parts.take(number)
            part = open_part(only_reference, job)
            if parts.in_memory:  # such calls can be taken once only
                kept[number].append(part.priced)
            return part.counts

        def audit_one(number: int) -> tuple[PartResult, FlaggedFrames | None]:
            if not parts.in_memory:
                kept[number].append(open_part(parts.take(number), job, count=False).priced)
            result, found = audit_part(kept[number], facts)
            return result, found if parts.count == 1 else None

        counted: Counts = {}
        opened = in_turn(open_one, range(parts.count), at_once)
        for number, each in enumerate(opened, 1):
            counted = counts.add_counts([counted, each])
            if progress is not None:
                progress(number, 2 * parts.count)
        records, facts = find_facts(logs, counted, thresholds)
        results, frames = list[PartResult](), list[FlaggedFrames]()
        audited = in_turn(audit_one, range(parts.count), at_once)
        for number, (result, found) in enumerate(audited, 1):
            results.append(result)
            _drop_unlisted(results, records, thresholds)
            if found is not None:
                frames.append(found)
            if progress is not None:
                progress(parts.count + number, 2 * parts.count)
        reopen: Reopen | None = None
        if keep_calls and frames:
            reopen = frames.__getitem__
        elif keep_calls and reread is not None:
            shares = [parts.share(number) for number in range(parts.count)]
            reopen = partial(open_again, reread, job, facts, shares)
        return Whole(records, counted, results, book, thresholds).report(reopen)


def _drop_unlisted(
    parts: Sequence[PartResult], logs: Sequence[Records], thresholds: Thresholds
) -> None:
    """Drop details of findings that aren't listed among those of these parts, nor of all parts."""
    if sum(len(part.details) for part in parts) <= _MOST_DETAILS:
        return
    listed = {
        impact.identity
        for index, log in enumerate(logs)
        for impact in Selection.of(
            [impact for part in parts for impact in part.impacts[index]], log.projection, thresholds
        ).listed.values()
    }
    for part in parts:
        part.details = {key: each for key, each in part.details.items() if key in listed}
        part.finding_days = {key: days for key, days in part.finding_days.items() if key in listed}


def open_again(
    reread: Reread,
    job: Job,
    facts: AuditFacts,
    shares: Sequence[Share],
    number: int,
) -> FlaggedFrames:
    """Read the calls of a part again, and find in them what the audit has found."""
    part = reread(shares[number])
    priced = open_part(part.take(0), job, count=False).priced
    return find(priced.arrange(facts.windows), facts.rules)


def find_facts(
    logs: Sequence[ReadRows], counted: Counts, thresholds: Thresholds
) -> tuple[list[Records], AuditFacts]:
    """Return the records of each log, and what each part must know of the whole."""
    days, models = counts.days_of(counted), counts.rows_of(counted, counts.MODELS)
    unknown = counts.rows_of(counted, counts.UNKNOWN_FIELDS)
    if before := logs[0].counted:
        days, models = sorted(before.days, key=lambda row: row["day"]), before.models
        unknown = [*before.unknown, *unknown]
    plan_days = counts.rows_of(counted, counts.PLAN_DAYS)
    by_log = (_by_log(rows, len(logs)) for rows in (days, models, plan_days, unknown))
    own = zip(logs, *by_log, strict=True)
    records = [Records.of(log, d, m, p, u, thresholds) for log, d, m, p, u in own]
    newest = _by_log(counts.rows_of(counted, counts.NEWEST), len(logs))
    for log, rows in zip(records, newest, strict=True):
        times = [(row["at_us"], row["calls"]) for row in rows]
        log.projection = log.projection.with_newest(times, thresholds)
    norms = find_norms(counted[counts.LENGTHS], counted[counts.ROUTES], thresholds)
    return records, AuditFacts(tuple(log.projection for log in records), Facts(thresholds, norms))


def _by_log(rows: Sequence[Row], logs: int) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in range(logs)]
    for row in rows:
        found[row.get("log", 0)].append(row)
    return found


class Whole(msgspec.Struct, frozen=True):
    """What is known of some logs once all of their parts have been audited."""

    logs: Sequence[Records]
    counts: Counts
    parts: Sequence[PartResult]
    book: PriceBook
    thresholds: Thresholds

    def report(self, reopen: Reopen | None) -> Audited:
        """Return the report of each log; they read calls from `reopen` if it is given."""
        details = {key: each for part in self.parts for key, each in part.details.items()}
        days = {key: each for part in self.parts for key, each in part.finding_days.items()}
        parts = {key: n for n, part in enumerate(self.parts) for key in part.details}
        by_log: list[list[Group]] = [[] for _ in self.logs]
        for part in self.parts:
            for group in part.groups:
                by_log[group.log].append(group)
        spent_models = [spend.by_model(groups) for groups in by_log]
        spent_days = spend.add_days([part.spent for part in self.parts])
        daily = spend.list_days(spent_days, len(self.logs))
        of_models = spend.list_days_and_models(spent_days, daily, spent_models)
        spent = [
            spend.LogSpend(*each)
            for each in zip(by_log, spent_models, daily, of_models, strict=True)
        ]
        plans = _by_log(counts.rows_of(self.counts, counts.PLAN_USAGE), len(self.logs))
        missing = _by_log(counts.rows_of(self.counts, counts.MISSING_RATES), len(self.logs))
        audited = Audited([], [])
        for index, log in enumerate(self.logs):
            impacts = [impact for part in self.parts for impact in part.impacts[index]]
            selection = Selection.of(impacts, log.projection, self.thresholds)
            plan_usage = plan_usage_of(plans[index]) if plans[index] else None
            own = [part.saved[index] for part in self.parts]
            summed = {name: sum((each[name] for each in own), Decimal(0)) for name in COMBINED}
            window_usd = sum((group.window_usd for group in spent[index].groups), Decimal(0))
            saved = headline_savings(summed, window_usd, log.projection.factor)
            audit = self._summarize(log, spent[index].groups, saved, selection, plan_usage)
            lists = spent[index].sections(log.models, self.book)
            models, period = lists["spend_by_model"], (audit.first_call, audit.last_call)
            alone = [Decimal(0) for _ in DETECTORS]
            for impact in selection.priced:
                alone[impact.detector_index] += impact.monthly_usd
            report = Report(
                audit=audit,
                findings=write_findings(
                    selection.listed,
                    [details[impact.identity] for impact in selection.listed.values()],
                    book=self.book,
                    projection=log.projection,
                    thresholds=self.thresholds,
                ),
                savings_by_detector=tuple(
                    SavingsByDetector(
                        detector=detector.id,
                        alone_usd=rounded(alone_usd),
                        composed_usd=rounded(composed_usd),
                    )
                    for detector, alone_usd, composed_usd in zip(
                        DETECTORS, alone, saved.steps, strict=True
                    )
                ),
                invalid_rows=log.invalid,
                prices=describe(self.book, models, lists["unpriced"], *period),
                thresholds=self.thresholds,
                methods=METHODS,
                data_quality=measure_quality(
                    log,
                    spent[index].groups,
                    self._is_equivalent,
                    [each for part in self.parts for each in part.reported.get(index, ())],
                    list_missing_rates(missing[index], self.book),
                ),
                plan_usage=plan_usage or UNSET,
                **selection.sections(),
                **lists,
            )
            listed = selection.listed.items()
            if reopen is not None:
                impacts_of = {name: (parts[each.identity], each) for name, each in listed}
                attach_calls(report, CallSource(impacts_of, reopen))
            audited.reports.append(report)
            audited.finding_days.append(
                {name: days.get(each.identity, []) for name, each in listed}
            )
        return audited

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


def _iso(microseconds: int | None) -> str | None:
    return None if microseconds is None else iso_time(microseconds)
