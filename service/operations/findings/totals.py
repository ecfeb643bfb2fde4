"""What totals of provider reports prove, among the findings of the account.

They have the states of other findings, and the dollars of the last 30 days. What calls cover by now
is a finding of calls, if it is one, so the one of totals goes.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, update
from sqlalchemy.dialects.postgresql import insert as upsert

from detectors.contract import Thresholds
from detectors.wording.impact import severity
from detectors.wording.names import PROVIDER_TOTALS
from service.models.base import Executor, new_id, utc_now
from service.models.calls.account_findings import (
    DISMISSED,
    FIXED,
    OPEN,
    RETURNED,
    UNRESOLVED,
    AccountFinding,
    FindingRecord,
    lock_findings,
)
from service.models.connections.unsent import NOT_SENT
from service.operations.connections.totals import (
    BATCH,
    DAYS,
    OLD_MODEL,
    UNREAD_WRITES,
    TotalsFinding,
    audit_totals,
)
from service.operations.connections.wording import describe_finding
from service.operations.findings.changes import change_state
from service.operations.findings.tracking import FIXED_AFTER, NO_FIGURES

# Those that claim savings; the others are on the page of savings alone.
_CLAIMING: Final = frozenset({OLD_MODEL, UNREAD_WRITES, BATCH})
_SOURCE: Final = "From the totals of your provider's reports."


def track_totals(connection: Connection, account_id: str, provider: str, today: date) -> None:
    """Update the account's findings of a provider's totals."""
    found = _find(connection, account_id, provider, today)
    mine = (AccountFinding.detector == PROVIDER_TOTALS, AccountFinding.provider == provider)
    known = lock_findings(connection, account_id, *mine)
    last_seen = datetime.combine(today, time(), UTC) - timedelta(microseconds=1)
    for identity, finding in found.items():
        _save(connection, account_id, known.get(identity), identity, finding, last_seen)
    gone = {identity: row for identity, row in known.items() if identity not in found}
    if not gone:
        return
    covered = _find(connection, account_id, provider, today, covers=False)
    for identity, row in gone.items():
        if identity in covered:
            connection.execute(delete(AccountFinding).where(AccountFinding.id == row.id))
            continue
        own = update(AccountFinding).where(AccountFinding.id == row.id)
        connection.execute(own.values(NO_FIGURES))
        if row.state in UNRESOLVED and row.last_seen < last_seen - FIXED_AFTER:
            change_state(connection, row, FIXED, fixed_at=row.last_seen)


def drop_totals(session: Executor, account_id: str, provider: str) -> None:
    mine = (AccountFinding.detector == PROVIDER_TOTALS, AccountFinding.provider == provider)
    session.execute(delete(AccountFinding).where(AccountFinding.account_id == account_id, *mine))


def _find(
    connection: Connection, account_id: str, provider: str, today: date, *, covers: bool = True
) -> Mapping[bytes, TotalsFinding]:
    found = audit_totals(connection, account_id, provider, today, covers=covers)
    identified = {}
    for each in found:
        if each.kind in _CLAIMING:
            labels = (each.kind, each.provider, each.project_id, each.key_id, each.model)
            identified[sha256("\0".join((PROVIDER_TOTALS, *labels)).encode()).digest()] = each
    return identified


def _save(
    connection: Connection,
    account_id: str,
    row: Row[Any] | None,
    identity: bytes,
    found: TotalsFinding,
    last_seen: datetime,
) -> None:
    """Insert the finding or update its figures, and add them to its history."""
    usd = found.usd.quantize(Decimal("1E-9"))
    title, reason = describe_finding(found)
    low = Decimal(0) if found.confidence == "CONDITIONAL" else usd
    figures = {
        **{"confidence": found.confidence, "fix": f"{title}. {reason} {_SOURCE}"},
        **{"severity": severity(usd, Thresholds()), "calls": 0, "is_monthly": True},
        **{"monthly_usd": usd, "observed_usd": usd, "impact_low": low, "impact_high": usd},
        **{"suggested_model": found.better or None, "last_seen": last_seen},
        # As spend has them.
        "route": f"{NOT_SENT}: {found.project}" if found.project else NOT_SENT,
    }
    if row is None:
        own_id = new_id()
        who = {"id": own_id, "account_id": account_id, "identity": identity, "state": OPEN}
        labels = {"detector": PROVIDER_TOTALS, "kind": found.kind, "model": found.model}
        first = {"first_seen": last_seen - timedelta(days=DAYS), "audit_id": "", "finding_id": ""}
        new = {**who, **labels, "provider": found.provider, **first, **figures}
        connection.execute(insert(AccountFinding).values(new))
    else:
        own_id = row.id
        own = update(AccountFinding).where(AccountFinding.id == own_id)
        connection.execute(own.values(figures))
        if row.state == FIXED and row.fixed_at is not None and last_seen > row.fixed_at:
            change_state(connection, row, RETURNED, fixed_at=None)
        elif row.state == DISMISSED and row.silent_until and row.silent_until < utc_now():
            change_state(connection, row, OPEN, silent_until=None)
    record = {"account_finding_id": own_id, "audit_id": f"totals {last_seen:%Y-%m-%d}", "calls": 0}
    dollars = {"monthly_usd": usd, "observed_usd": usd}
    connection.execute(upsert(FindingRecord).values(record | dollars).on_conflict_do_nothing())
