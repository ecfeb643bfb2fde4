"""How the findings of an account change with each audit of the account.

A new finding is open. One without flagged calls for 14 days, while its route has calls, is fixed. A
fixed one with later flagged calls has returned. A dismissed one is open again when its time is up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from detectors.contract import Finding, FindingDay, Report
from service.models.base import new_id, utc_now
from service.models.calls.account_findings import (
    ACKNOWLEDGED,
    DISMISSED,
    FIXED,
    OPEN,
    RETURNED,
    UNRESOLVED,
    AccountFinding,
    FindingChange,
    FindingRecord,
    FindingSaving,
    identify,
    list_savings,
    lock_findings,
)
from service.models.calls.daily_spend import SpendRow

# Absent for so long, with traffic, a finding is fixed; so long before a fix, its cost is measured.
FIXED_AFTER: Final = timedelta(days=14)
# A finding with its row locked, or as a page reads it.
Tracked = Row[Any] | AccountFinding
_FIGURES: Final = ("severity", "confidence", "fix", "calls")
_COPIED: Final = ("detector", "kind", "route", "provider", "model")
_NONE: Final = {"calls": 0, "monthly_usd": Decimal(0), "observed_usd": Decimal(0)}


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
    known = lock_findings(connection, audited.account_id)
    saving = [each for each in audited.report.findings if each.monthly_cost_impact_usd > 0]
    found = {identify(each): each for each in saving}
    ids = {
        identity: _save(connection, audited, known.get(identity), finding)
        for identity, finding in found.items()
    }
    gone = [row.id for identity, row in known.items() if identity not in found]
    connection.execute(update(AccountFinding).where(AccountFinding.id.in_(gone)).values(_NONE))
    _save_days(connection, audited, {found[key].id: own for key, own in ids.items()})
    for row in lock_findings(connection, audited.account_id).values():
        _move(connection, row, newest)


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
    """Replace the days of the window; earlier days stay."""
    start = audited.report.audit.window_start
    if start is None:
        return
    first = _moment(start).astimezone(UTC).date() + timedelta(days=1)  # the first day is cut
    replaced = (FindingSaving.account_finding_id.in_(ids.values()), FindingSaving.day >= first)
    connection.execute(delete(FindingSaving).where(*replaced))
    rows = [
        {
            "account_finding_id": ids[each.finding_id],
            "day": each.day,
            "calls": each.calls,
            "saving_usd": each.saving_usd,
        }
        for each in audited.days
        if each.finding_id in ids
    ]
    if rows:
        connection.execute(upsert(FindingSaving).on_conflict_do_nothing(), rows)


def _move(connection: Connection, row: Row[Any], newest: datetime) -> None:
    """Change the finding's state if it is due."""
    if row.state in UNRESOLVED and row.last_seen < newest - FIXED_AFTER:
        later = row.last_seen.astimezone(UTC).date() + timedelta(days=1)
        if _calls_of(connection, row, (later, date.max)):
            change_state(connection, row, FIXED, fixed_at=row.last_seen)
    elif row.state == FIXED and row.fixed_at is not None and row.last_seen > row.fixed_at:
        change_state(connection, row, RETURNED, fixed_at=None)
    elif row.state == DISMISSED and row.silent_until is not None and row.silent_until < newest:
        change_state(connection, row, OPEN, silent_until=None)


def _is_route(row: Tracked) -> Any:
    """Match the calls of a finding's route; without a route, those of its model."""
    if row.route == row.model:
        return (SpendRow.route == "") & (SpendRow.model == row.model)
    return SpendRow.route == row.route


def change_state(
    connection: Connection,
    row: Row[Any],
    state: str,
    *,
    changed_by: str = "",
    reason: str = "",
    **values: object,
) -> None:
    """Change the state and say so in the finding's changes; the caller has locked the row."""
    own = AccountFinding.id == row.id
    connection.execute(update(AccountFinding).where(own).values(state=state, **values))
    change = {"before": row.state, "after": state, "changed_by": changed_by, "reason": reason}
    connection.execute(insert(FindingChange).values(account_finding_id=row.id, **change))


# What a person may do with findings, and the state that follows.
ACTIONS: Final = {
    "acknowledge": ACKNOWLEDGED,
    "dismiss": DISMISSED,
    "dismiss_90": DISMISSED,
    "fix": FIXED,
    "reopen": OPEN,
}
_SILENT: Final = timedelta(days=90)


def change_findings(
    connection: Connection,
    account_id: str,
    finding_ids: Sequence[str],
    action: str,
    *,
    changed_by: str,
    reason: str = "",
) -> int:
    """Apply an action of a person to those of the findings that the account has.

    Return how many changed; a finding that is in this state already stays as it is.
    """
    state, now, changed = ACTIONS[action], utc_now(), 0
    values: dict[str, datetime | None] = {
        "fixed_at": now if state == FIXED else None,
        "silent_until": now + _SILENT if action == "dismiss_90" else None,
    }
    for row in lock_findings(connection, account_id).values():
        if row.id in finding_ids and row.state != state:
            change_state(connection, row, state, changed_by=changed_by, reason=reason, **values)
            changed += 1
    return changed


@dataclass(frozen=True)
class Realized:
    """What a fix has saved so far, and per month at today's volume; negative if it cost more."""

    total_usd: Decimal
    monthly_usd: Decimal


def find_newest_day(connection: Connection, account_id: str) -> date | None:
    """Return the last day with calls of the account."""
    own = SpendRow.account_id == account_id
    return connection.scalar(select(func.max(SpendRow.day)).where(own))


def measure_realized(connection: Connection, row: Tracked, newest: date) -> Realized | None:
    """Return the realized savings of a fixed finding, or None before a day has passed.

    With W the finding's dollars per call of its route over the 14 days before the fix, and w the
    same since: (W - w) x calls of the route since. A drop in volume alone therefore gives 0.
    """
    if row.fixed_at is None:
        return None
    fixed_on = row.fixed_at.astimezone(UTC).date()
    before = (fixed_on - FIXED_AFTER + timedelta(days=1), fixed_on)
    since = (fixed_on + timedelta(days=1), newest)
    days = (since[1] - since[0]).days + 1
    calls_before, calls_since = (_calls_of(connection, row, each) for each in (before, since))
    if days < 1 or not calls_before or not calls_since:
        return None
    waste_before, waste_since = (_waste_of(connection, row, each) for each in (before, since))
    total = waste_before / calls_before * calls_since - waste_since
    return Realized(total, total / days * 30)


def _calls_of(connection: Connection, row: Tracked, days: tuple[date, date]) -> int:
    query = select(func.sum(SpendRow.calls)).where(
        SpendRow.account_id == row.account_id, SpendRow.day.between(*days), _is_route(row)
    )
    return int(connection.scalar(query) or 0)


def _waste_of(connection: Connection, row: Tracked, days: tuple[date, date]) -> Decimal:
    return sum((each.saving_usd for each in list_savings(connection, row.id, days)), Decimal(0))
