"""Compare two audits or two periods of an account, for pages, the API and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from sqlalchemy.orm import Session

from detectors.contract import (
    CHANGE_STATUSES,
    Finding,
    Span,
    SpendChange,
    compare_spend,
    find_status,
    is_per_day,
    list_priced_changes,
    span_of,
    spend_by_model,
    spend_by_route,
)
from detectors.contract.comparison import FIXED, GONE
from detectors.wording.comparison import describe_lengths, describe_reports
from detectors.wording.figures import day
from detectors.wording.imports import as_import, has_own_dollars
from service.errors import InvalidRequestError, NotFoundError
from service.models.audits.audits import INGEST, find_audit
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.calls.account_findings import AccountFinding
from service.models.calls.coverage import find_gap
from service.models.calls.finding_list import ComparedSavings, compare_findings, find_first_day
from service.models.calls.spend import BY_CHANGE, Line, Period, Periods, Selection, sum_spend
from service.reports.documents import ListedReport, find_published, read_listed

AUDITS, PERIODS = KINDS = ("audits", "periods")
NO_REPORT: Final = "One of these audits has no report yet. Choose audits that are done."
SAME_AUDIT: Final = "Choose two different audits."


@dataclass(frozen=True, kw_only=True)
class ComparedFinding:
    """A finding before and after: dollars per month of audits, or those of the periods."""

    status: str
    detector: str
    kind: str
    route: str
    provider: str
    model: str
    suggested_model: str | None
    confidence: str
    finding_id: str
    audit_id: str = ""  # of the report with the finding; empty where the ID is the account's
    before_usd: Decimal
    after_usd: Decimal


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Two audits or two periods, the largest changes between them, and notes on the figures."""

    kind: str
    before: Span
    after: Span
    routes: Sequence[SpendChange]
    models: Sequence[SpendChange]
    findings: Sequence[ComparedFinding]
    notes: Sequence[str]
    gap: str = ""  # why the periods can't be compared, though each has its figures

    @property
    def is_per_day(self) -> bool:
        return is_per_day(self.before, self.after)

    @property
    def change_days(self) -> int:
        """Return how many days the amounts of a change are multiplied by."""
        return self.after.days if self.is_per_day else 1

    @property
    def total(self) -> SpendChange:
        """Return the change of all spend; per day if the spans differ in length."""
        (total,) = compare_spend(
            {(): self.before.spend_usd}, {(): self.after.spend_usd}, (self.before, self.after)
        )
        return total

    def count(self, status: str) -> int:
        return sum(each.status == status for each in self.findings)


def compare_audits(
    session: Session,
    account_id: str,
    before_id: str,
    after_id: str,
    *,
    limit: int,
    as_shown: bool = False,
) -> Compared:
    """Compare the reports of two audits of the account.

    With `as_shown`, two batches have their own dollars, as on the pages of their reports.

    Raise `NotFoundError` for an audit that isn't the account's, and `InvalidRequestError` for one
    without a report or the same audit twice.
    """
    if before_id == after_id:
        raise InvalidRequestError(SAME_AUDIT)
    before, is_own = _read(session, account_id, before_id)
    after, is_own_too = _read(session, account_id, after_id)
    if as_shown and is_own and is_own_too:  # otherwise, by the month
        before, after = as_import(before), as_import(after)
    spans = span_of(before), span_of(after)
    routes = compare_spend(spend_by_route(before), spend_by_route(after), spans)
    models = compare_spend(spend_by_model(before), spend_by_model(after), spans)
    return Compared(
        kind=AUDITS,
        before=spans[0],
        after=spans[1],
        routes=routes[:limit],
        models=models[:limit],
        findings=[
            ComparedFinding(
                status=change.status,
                **_labels_of(change.finding),
                finding_id=change.finding.id,
                audit_id=before_id if change.status in (FIXED, GONE) else after_id,
                before_usd=change.before_usd,
                after_usd=change.after_usd,
            )
            for change in list_priced_changes(after, before)[:limit]
        ],
        notes=(*describe_lengths(*spans), *describe_reports(before, after)),
    )


def _read(session: Session, account_id: str, audit_id: str) -> tuple[ListedReport, bool]:
    """Return the report of an audit, and whether its page has the dollars of a batch alone."""
    audit = find_audit(session, account_id, audit_id)
    if audit is None:
        raise NotFoundError("Audit not found.")
    document = find_published(session, audit.id)
    if document is None:
        raise InvalidRequestError(NO_REPORT)
    report = read_listed(document.load())
    return report, audit.source == INGEST and has_own_dollars(report.audit)


def _labels_of(finding: Finding | AccountFinding) -> dict[str, Any]:
    names = ("detector", "kind", "route", "provider", "model", "suggested_model", "confidence")
    return {name: getattr(finding, name) for name in names}


def compare_periods(
    session: Session, account_id: str, periods: Periods, *, limit: int, of: AccountDays = IN_UTC
) -> Compared:
    """Compare the spend of two periods by day of call, and what findings could have saved.

    Savings are known by the UTC days of audits alone, whosever days the others are.
    """
    before, after = periods
    every = Selection(
        after.first,
        after.last,
        keys=(),
        before=before,
        is_brief=True,
        is_local=of.is_local,
    )
    connection = session.connection()  # quicker than a session where no objects are read
    total = sum_spend(connection, account_id, every)
    gap = find_gap(connection, account_id, periods, is_local=of.is_local)
    spans = (
        _span(before, total.previous_calls, total.previous_usd),
        _span(after, total.totals.calls, total.totals.cost_usd),
    )
    routes, models = (
        sum_spend(
            connection, account_id, replace(every, keys=keys), order=BY_CHANGE, limit=limit
        ).groups
        for keys in (("route",), ("provider", "model"))
    )
    rows = compare_findings(session, account_id, periods, limit)
    used = _find_used(session, account_id, periods[1], [row.finding for row in rows], of)
    notes = [*([f"{gap}."] if gap else []), *describe_lengths(*spans)]
    if any(period.first <= of.today() <= period.last for period in periods):
        notes.append(f"Today is not over yet ({of.words}).")
    if of.is_local:
        notes.append("Findings are by UTC day.")
    known = find_first_day(session, account_id)
    if known is not None and known > before.first:  # before the first audit's window
        notes.append(
            f"Findings are known by day since {day(known)}; earlier days count as without any."
        )
    days = [span.days if is_per_day(*spans) else 1 for span in spans]
    found = [_measure(row, days, has_traffic=row.finding.id in used) for row in rows]
    return Compared(
        kind=PERIODS,
        before=spans[0],
        after=spans[1],
        routes=_changes(routes, spans),
        models=_changes(models, spans),
        findings=sorted(
            found,
            key=lambda each: (
                CHANGE_STATUSES.index(each.status),
                -max(each.before_usd, each.after_usd),
            ),
        ),
        notes=tuple(notes),
        gap=gap,
    )


def _span(period: Period, calls: int, usd: Decimal) -> Span:
    return Span(first=period.first, last=period.last, days=period.days, calls=calls, spend_usd=usd)


def _changes(lines: Sequence[Line], spans: tuple[Span, Span]) -> Sequence[SpendChange]:
    before: dict[Any, Decimal] = {line.key: line.previous_usd for line in lines}
    after: dict[Any, Decimal] = {line.key: line.sums.cost_usd for line in lines}
    return compare_spend(before, after, spans)


def _find_used(
    session: Session,
    account_id: str,
    period: Period,
    findings: Sequence[AccountFinding],
    of: AccountDays,
) -> set[str]:
    """Return the IDs of the findings whose routes have calls in the period.

    Without tag and endpoint, a finding's route is its model.
    """
    routes = {each.route for each in findings} | {""}
    wanted = Selection(
        period.first,
        period.last,
        keys=("route", "model"),
        among=routes,
        is_brief=True,
        is_local=of.is_local,
    )
    lines = sum_spend(session, account_id, wanted).groups if findings else ()
    used = {route or model for route, model in (line.key for line in lines)}
    return {each.id for each in findings if each.route in used}


def _measure(row: ComparedSavings, days: Sequence[int], *, has_traffic: bool) -> ComparedFinding:
    """Return a finding with its dollars per day or in the periods."""
    before, after = (
        usd / count for usd, count in zip((row.before_usd, row.after_usd), days, strict=True)
    )
    return ComparedFinding(
        status=find_status(before or None, after or None, has_traffic=has_traffic),
        **_labels_of(row.finding),
        finding_id=row.finding.id,
        before_usd=before,
        after_usd=after,
    )
