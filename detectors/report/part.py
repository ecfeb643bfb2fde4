"""The audit of one part of the calls, whose groups are whole: routes with a provider and a model.

A part is opened, which prices its calls and counts them. The counts of all parts add up to the
`AuditFacts`; with these, each part is audited alone.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Final

import msgspec
import polars as pl

from detectors.contract import ReportedModel, Thresholds
from detectors.engine import (
    Calls,
    Row,
    attach,
    collect,
    collect_all,
    drop_duplicate_rows,
    fetch,
    planned_for,
)
from detectors.engine.levels import number_texts
from detectors.prices.calls import (
    ArrangedCalls,
    PricedCalls,
    number_groups,
    price_labelled,
    read_labels,
)
from detectors.prices.table import Cells
from detectors.report import spend
from detectors.report.compose import COMBINED, compose_savings, find_columns, find_largest
from detectors.report.counting import counts
from detectors.report.counting.billing import is_included
from detectors.report.counting.counts import Counts
from detectors.report.counting.missing_rates import count_missing_rates
from detectors.report.counting.projection import Projection
from detectors.report.counting.quality import sum_reported
from detectors.report.evidence import Detail, collect_details
from detectors.report.impacts import (
    FINDING,
    Group,
    Impact,
    add_days,
    drop_findings,
    limit_lows,
    measure,
    sum_flagged,
)
from detectors.report.money import collect_usd, usd
from detectors.report.plan_usage import count_plan_usage
from detectors.report.result.calls import FlaggedFrames
from detectors.report.selection import Selection
from detectors.rules import DETECTORS
from detectors.rules.detector import Facts
from detectors.rules.norms import count_lengths, list_routes

_QUERIES_AT_ONCE: Final = 2


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the audit of a part depends on beside its calls and the facts: rates and thresholds.

    `keys` names the column that numbers the logs if there are several. With `has_each_call_once`,
    no duplicate rows are dropped; with `is_counted`, metered calls have been counted before.
    """

    cells: Cells
    thresholds: Thresholds
    keys: tuple[str, ...] = ()
    has_each_call_once: bool = False
    is_counted: bool = False


class OpenedPart(msgspec.Struct):
    """The priced calls of a part, and the counts of all of its calls."""

    priced: PricedCalls
    counts: Counts


class AuditFacts(msgspec.Struct, frozen=True):
    """What a part must know of the whole: the window of each log, and the detectors' facts."""

    projections: tuple[Projection, ...]
    rules: Facts

    @property
    def windows(self) -> list[tuple[int, int]]:
        return [(each.from_us, each.to_us) for each in self.projections]


class PartResult(msgspec.Struct, kw_only=True):
    """What the detectors find in a part.

    `details` are those of the findings that the part would list if it were the whole, by
    `Impact.identity`, and `finding_days` has their calls and savings of each day. `saved` has the
    sums of `compose.COMBINED` of each log; `reported` compares the costs that sources report.
    """

    groups: list[Group]
    spent: pl.DataFrame
    impacts: list[list[Impact]]
    details: dict[tuple[object, ...], Detail]
    finding_days: dict[tuple[object, ...], list[Row]]
    saved: list[dict[str, Decimal]]
    reported: dict[int, list[ReportedModel]]


def open_part(only_reference: list[Calls], job: Job, *, count: bool = True) -> OpenedPart:
    """Price the calls in the list, which is emptied so that they are freed once they are priced.

    Without `count`, nothing is counted: it was before.
    """
    calls = only_reference.pop()
    frame = collect(calls) if job.has_each_call_once else drop_duplicate_rows(calls)
    del calls
    frame = number_texts(frame)
    tables: Counts = {}
    is_plan = is_included(frame.lazy())
    if frame.select(is_plan.any()).item():
        included, frame = frame.filter(is_plan).lazy(), frame.filter(~is_plan)
        if count:
            queries = counts.count_of_plans(included, job.keys)
            queries |= count_plan_usage(included, job.cells, job.keys)
            tables = counts.collect_tables(queries, job.keys)
        del included
    if not count:
        return OpenedPart(_price([read_labels(frame.lazy(), job.keys)], job), {})
    queries = counts.count_newest(frame.lazy(), job.thresholds.projection_min_calls, job.keys)
    if not job.is_counted:
        queries |= counts.count_calls(frame.lazy(), job.keys)
    tables = counts.add_counts([counts.collect_tables(queries, job.keys), tables])
    labelled = [read_labels(frame.lazy(), job.keys)]
    del frame
    priced = _price(labelled, job)
    missing = count_missing_rates(priced)
    if missing is not None:
        tables[counts.MISSING_RATES] = missing
    calls = priced.calls
    if job.keys:
        calls = attach(calls, priced.groups.select("group", *job.keys), "group")
    routes = list_routes(calls, priced.groups, int(job.thresholds.d3_bin_min_routes))
    tables[counts.LENGTHS], tables[counts.ROUTES] = collect_all([count_lengths(calls), routes])
    return OpenedPart(priced, tables)


def _price(only_reference: list[Calls], job: Job) -> PricedCalls:
    labelled = only_reference.pop()
    groups = number_groups(labelled, job.keys)
    return price_labelled(labelled, groups, job.cells, job.keys)


def audit_part(
    only_reference: list[PricedCalls], facts: AuditFacts
) -> tuple[PartResult, FlaggedFrames]:
    """Return what the detectors find in a part, and the frames that they found it in.

    The list is emptied, so that the priced calls are freed when they have been sorted.
    """
    priced = only_reference.pop()
    labels, thresholds = priced.groups, facts.rules.thresholds
    arranged = priced.arrange(facts.windows)
    calls = arranged.read()
    spent = spend.sum_days(calls)
    groups = spend.find_groups(spent, labels)
    frames = find(arranged, facts.rules)
    by_day = sum_flagged(pl.concat(frames.found))
    factors = [each.factor for each in facts.projections]
    impacts = measure(fetch(add_days(by_day.lazy())), groups, factors)
    selections = [
        Selection.of(own, projection, thresholds)
        for own, projection in zip(impacts, facts.projections, strict=True)
    ]
    listed = [impact for each in selections for impact in each.listed.values()]
    most = int(thresholds.evidence_calls)
    details = collect_details(listed, frames.found, arranged, most=most)
    names = {impact.key: impact.identity for impact in listed}
    days: dict[tuple[object, ...], list[Row]] = {}
    for row in by_day.filter(pl.col("in_window")).iter_rows(named=True):
        if identity := names.get(tuple(row[name] for name in FINDING)):
            day = {"day": row["day"], "calls": row["calls"], "saving_usd": usd(row, "saving_usd")}
            days.setdefault(identity, []).append(day)
    result = PartResult(
        groups=list(groups.values()),
        spent=spend.by_day_and_model(spent, labels),
        impacts=impacts,
        details={each.identity: detail for each, detail in zip(listed, details, strict=True)},
        finding_days=days,
        saved=_sum_savings(frames, selections, labels),
        reported=sum_reported(calls, groups),
    )
    return result, frames


def find(arranged: ArrangedCalls, facts: Facts) -> FlaggedFrames:
    """Return the calls, and those that each detector flags."""
    calls = arranged.read()

    def query(index: int) -> Calls:
        found = DETECTORS[index].find(calls, facts)
        return found.with_columns(pl.lit(index, pl.Int8).alias("detector"))

    def find_one(index: int) -> pl.DataFrame:
        return query(index).collect()

    numbers = range(len(DETECTORS))
    if arranged.computed is not None:
        with planned_for(0):
            found = collect_all(map(query, numbers))
    else:
        # One alone leaves a third of two processors idle; all would take too much memory.
        with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
            found = list(pool.map(find_one, numbers))
    return FlaggedFrames(arranged, [each.lazy() for each in found])


def _sum_savings(
    frames: FlaggedFrames, selections: Sequence[Selection], labels: pl.DataFrame
) -> list[dict[str, Decimal]]:
    """Sum the composed savings of each log's window."""
    losing = [each for selection in selections for each in selection.losing]
    priced = [each for selection in selections for each in selection.priced]
    wider = [each for selection in selections for each in selection.wider]
    claims = frozenset((each.detector_index, each.kind.confidence) for each in priced + wider)
    saved = [dict.fromkeys(COMBINED, Decimal(0)) for _ in selections]
    if not claims:
        return saved
    counting = [
        limit_lows(drop_findings(calls, dropped), limited)
        for calls, dropped, limited in zip(
            frames.found, _by_detector(losing), _by_detector(priced), strict=True
        )
    ]
    columns = find_columns(claims)
    names = list(dict.fromkeys(columns.values()))
    combined = compose_savings(counting, claims, find_largest(priced + wider))
    keys = [name for name in ("log",) if name in labels.columns]
    if keys:
        combined = combined.join(frames.calls.read().select("number", *keys), on="number")
    sums = collect_usd(combined.select(*keys, *names), *names, by=keys)
    for row in sums.iter_rows(named=True):
        saved[row.get("log", 0)] |= {name: usd(row, column) for name, column in columns.items()}
    return saved


def _by_detector(impacts: Sequence[Impact]) -> list[list[Impact]]:
    by_detector: list[list[Impact]] = [[] for _ in DETECTORS]
    for impact in impacts:
        by_detector[impact.detector_index].append(impact)
    return by_detector
