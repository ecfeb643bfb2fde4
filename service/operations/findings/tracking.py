"""How the findings of an account change with each audit of the account.

A new finding is open. One without flagged calls for 14 days, while its route has calls, is fixed,
unless the audit has less than half of the calls of one that was the latest in the last 14 days. A
fixed one with later flagged calls has returned. A dismissed one is open again when its time is up.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from detectors.contract import Finding, FindingDay, Report
from detectors.wording.names import PROVIDER_TOTALS
from service.models.audits.audits import ACCOUNT, DONE, Audit
from service.models.base import new_id
from service.models.calls.account_audits import DEFAULT_WINDOW
from service.models.calls.account_findings import (
    DISMISSED,
    FIXED,
    OPEN,
    RETURNED,
    UNRESOLVED,
    AccountFinding,
    FindingRecord,
    FindingSaving,
    identify,
    lock_findings,
)
from service.models.calls.daily_spend import SpendRow
from service.operations.findings.changes import change_state

# Absent for so long, with traffic, a finding is fixed.
FIXED_AFTER: Final = timedelta(days=14)
_FIGURES: Final = (
    *("severity", "confidence", "fix", "calls", "is_monthly"),
    *("impact_low", "impact_high", "suggested_model"),
)
_COPIED: Final = ("detector", "kind", "route", "provider", "model")
_DAY: Final = (FindingSaving.account_finding_id, FindingSaving.day)
_DAY_FIGURES: Final = (FindingSaving.calls, FindingSaving.saving_usd)
# Findings of provider reports don't depend on audits: module `totals`.
_OF_CALLS: Final = AccountFinding.detector != PROVIDER_TOTALS
NO_FIGURES: Final = {"calls": 0, "monthly_usd": Decimal(0), "observed_usd": Decimal(0)}


@dataclass(frozen=True)
class AuditedFindings:
    """The report of an audit of the account, and the savings of its findings by day."""

    account_id: str
    audit_id: str
    report: Report
    days: Sequence[FindingDay]

    @property
    def newest(self) -> datetime | None:
        """Return the time of the newest call."""
        last = self.report.audit.last_call
        return None if last is None else datetime.fromisoformat(last)


def track_findings(connection: Connection, audited: AuditedFindings) -> None:
    """Update the account's findings in the transaction that publishes the audit."""
    newest = audited.newest
    if newest is None:
        return
    known = lock_findings(connection, audited.account_id, _OF_CALLS)
    saving = [each for each in audited.report.findings if each.monthly_cost_impact_usd > 0]
    found = {identify(each): each for each in saving}
    ids = {
        identity: _save(connection, audited, known.get(identity), finding)
        for identity, finding in found.items()
    }
    gone = [row.id for identity, row in known.items() if identity not in found]
    connection.execute(update(AccountFinding).where(AccountFinding.id.in_(gone)).values(NO_FIGURES))
    _save_days(connection, audited, {found[key].id: own for key, own in ids.items()})
    # Earlier releases have seen calls that are dated in the future.
    own = (AccountFinding.account_id == audited.account_id, _OF_CALLS)
    ahead = (*own, AccountFinding.last_seen > newest)
    connection.execute(update(AccountFinding).where(*ahead).values(last_seen=newest))
    has_usual_calls = _has_usual_calls(connection, audited)
    for row in lock_findings(connection, audited.account_id, _OF_CALLS).values():
        is_absent = row.last_seen < newest - FIXED_AFTER
        if row.state in UNRESOLVED and is_absent:
            # Only calls of the finding's route, or without one of its model, show that it is gone.
            days = (row.last_seen.astimezone(UTC).date() + timedelta(days=1), newest.date())
            calls = (SpendRow.account_id == row.account_id, SpendRow.day.between(*days))
            later = select(SpendRow.id).where(*calls, *match_route(row)).limit(1)
            if has_usual_calls and connection.scalar(later) is not None:
                change_state(connection, row, FIXED, fixed_at=row.last_seen)
        elif row.state == FIXED and row.fixed_at is not None and row.last_seen > row.fixed_at:
            change_state(connection, row, RETURNED, fixed_at=None)
        elif row.state == FIXED and row.fixed_at == row.last_seen and not is_absent:
            # It seemed absent beside a call that was dated in the future.
            change_state(connection, row, OPEN, fixed_at=None)
        elif row.state == DISMISSED and row.silent_until is not None and row.silent_until < newest:
            change_state(connection, row, OPEN, silent_until=None)


def _save(
    connection: Connection, audited: AuditedFindings, row: Row[Any] | None, finding: Finding
) -> str:
    """Insert the finding or update its figures; add them to its history."""
    dollars = {
        "monthly_usd": finding.monthly_cost_impact_usd,
        "observed_usd": finding.observed_cost_impact_usd,
    }
    seen = {name: _moment(getattr(finding, name)) for name in ("first_seen", "last_seen")}
    figures = {name: getattr(finding, name) for name in _FIGURES} | dollars
    figures |= {"audit_id": audited.audit_id, "finding_id": finding.id}
    if row is None:
        own_id = new_id()
        labels = {name: getattr(finding, name) for name in _COPIED}
        own = {"id": own_id, "account_id": audited.account_id, "identity": identify(finding)}
        new = own | labels | figures | seen | {"state": OPEN}
        connection.execute(insert(AccountFinding).values(new))
    else:
        own_id = row.id
        later = figures | {"last_seen": max(row.last_seen, seen["last_seen"])}
        connection.execute(update(AccountFinding).where(AccountFinding.id == own_id).values(later))
    record = {"account_finding_id": own_id, "audit_id": audited.audit_id, "calls": finding.calls}
    connection.execute(upsert(FindingRecord).values(record | dollars).on_conflict_do_nothing())
    return own_id


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _save_days(connection: Connection, audited: AuditedFindings, ids: Mapping[str, str]) -> None:
    """Replace the days of the window; earlier days stay.

    Most of them are as they were in the audit before, and such rows are not written again.
    """
    start = audited.report.audit.window_start
    if start is None:
        return
    first = _moment(start).astimezone(UTC).date()
    query = select(*_DAY, *_DAY_FIGURES).where(_DAY[0].in_(ids.values()), _DAY[1] >= first)
    known = {(own_id, day): figures for own_id, day, *figures in connection.execute(query)}
    days = {
        (ids[each.finding_id], each.day): [each.calls, each.saving_usd]
        for each in audited.days
        if each.finding_id in ids
    }
    by_day = defaultdict[date, list[str]](list)
    for own_id, day in known.keys() - days.keys():
        by_day[day].append(own_id)
    for day, own_ids in by_day.items():
        connection.execute(delete(FindingSaving).where(_DAY[0].in_(own_ids), _DAY[1] == day))
    names = [column.key for column in (*_DAY, *_DAY_FIGURES)]
    changed = [
        dict(zip(names, (*key, *figures), strict=True))
        for key, figures in days.items()
        if known.get(key) != figures
    ]
    if changed:
        insertion = upsert(FindingSaving)
        newer = {column.key: insertion.excluded[column.key] for column in _DAY_FIGURES}
        is_whole = FindingSaving.day >= first
        saved = insertion.on_conflict_do_update(index_elements=_DAY, set_=newer, where=is_whole)
        connection.execute(saved, changed)


def _has_usual_calls(connection: Connection, audited: AuditedFindings) -> bool:
    """Check whether the audit has at least half of the calls of the largest of the last 14 days.

    If not, most calls are missing rather than findings fixed: until so few have been usual for as
    long as a finding must be absent. The audit that was the latest when the 14 days began counts,
    too: after a pause, it is the only one with the usual calls.
    """
    own = (
        Audit.account_id == audited.account_id,
        Audit.source == ACCOUNT,
        Audit.window_days == DEFAULT_WINDOW,
        Audit.status == DONE,
        Audit.id != audited.audit_id,
    )
    earlier = select(func.max(Audit.created_at)).where(
        *own, Audit.created_at < func.now() - FIXED_AFTER
    )
    since = func.coalesce(earlier.scalar_subquery(), datetime.min.replace(tzinfo=UTC))
    largest = select(func.max(Audit.records - Audit.included_calls))
    most = connection.scalar(largest.where(*own, Audit.created_at >= since))
    return most is None or audited.report.audit.metered_calls * 2 >= most


def match_route(row: Row[Any]) -> tuple[ColumnElement[bool], ...]:
    """Match the spend of a finding's route; without a route, that of its model."""
    if row.route == row.model:
        return (SpendRow.route == "", SpendRow.model == row.model)
    return (SpendRow.route == row.route,)
