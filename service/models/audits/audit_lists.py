"""Lists of audits and of findings.

They read only what is shown, and their queries are built once: with whole rows and a new query for
each request, a page takes twice as long.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, bindparam, select, tuple_, union_all
from sqlalchemy.orm import Session

from service.models.audits.audits import ACCOUNT, DONE, Audit, Cursor, FindingRow, of_source

_AUDIT: Final = Audit.__table__.c
_FINDING: Final = FindingRow.__table__.c
_NEWEST: Final = (_AUDIT.created_at, _AUDIT.id)


class Selection(NamedTuple):
    """The filters of an audit list: status, earliest time, cursor and source."""

    limit: int
    status: str | None = None
    since: datetime | None = None
    after: Cursor | None = None
    source: str | None = None


class ListedAudit(NamedTuple):
    """What lists show of an audit; `Audit` describes the fields."""

    id: str
    status: str
    created_at: datetime
    source: str
    window_days: int | None
    records: int
    observed_days: int
    total_spend_usd: Decimal
    projected_spend_usd: Decimal
    savings_pct: float
    equiv_spend: bool
    findings_count: int
    projection: str | None
    span_days: float | None
    window_start: datetime | None
    monthly_factor: float | None
    verified_savings_usd: Decimal | None
    estimated_savings_usd: Decimal | None
    estimated_savings_low_usd: Decimal | None
    estimated_savings_high_usd: Decimal | None
    conditional_savings_usd: Decimal | None
    conditional_savings_low_usd: Decimal | None
    conditional_savings_high_usd: Decimal | None


class ListedFinding(NamedTuple):
    """What the list of an audit's findings shows; `FindingRow` describes the fields."""

    id: str
    detector: str
    route: str
    severity: str
    confidence: str
    monthly_cost_impact_usd: Decimal
    fix: str
    impact_low: Decimal | None
    impact_high: Decimal | None
    first_seen: datetime | None
    last_seen: datetime | None


# What each filter matches; without a source, a list has the audits of batches and files.
_FILTERS: Final = {
    "status": _AUDIT.status == bindparam("status"),
    "since": _AUDIT.created_at >= bindparam("since"),
    "after": tuple_(*_NEWEST) < tuple_(*(bindparam(f"after_{at.name}") for at in _NEWEST)),
    "source": _AUDIT.source == bindparam("source"),
}
_FINDINGS: Final = (
    select(*(_FINDING[name] for name in ListedFinding._fields))
    .select_from(Audit.__table__.outerjoin(FindingRow.__table__))
    .where(_AUDIT.account_id == bindparam("account_id"), _AUDIT.id == bindparam("audit_id"))
    .order_by(_FINDING.rank)
)


def list_audits(session: Session, account_id: str, wanted: Selection) -> Sequence[ListedAudit]:
    """Return the account's audits, newest first; ties are sorted by ID, descending."""
    given = {name: value for name, value in wanted._asdict().items() if value is not None}
    query = _newest(tuple(name for name in _FILTERS if name in given))
    if wanted.after is not None:
        given |= {f"after_{name}": value for name, value in wanted.after._asdict().items()}
    rows = session.execute(query, {**given, "account_id": account_id})
    return list(map(ListedAudit._make, rows.all()))


@cache
def _newest(filters: tuple[str, ...]) -> Select[*tuple[Any, ...]]:
    """Return the query of `list_audits` with these filters."""
    matches = [_FILTERS[name] for name in filters]
    if "source" not in filters:
        matches.append(_AUDIT.source != ACCOUNT)
    query = select(*(_AUDIT[name] for name in ListedAudit._fields))
    query = query.where(_AUDIT.account_id == bindparam("account_id"), *matches)
    return query.order_by(*(at.desc() for at in _NEWEST)).limit(bindparam("limit"))


class Reported(NamedTuple):
    """What a choice of an audit shows of it."""

    id: str
    created_at: datetime
    source: str
    total_spend_usd: Decimal
    window_days: int | None


def list_reported(session: Session, account_id: str, limit: int) -> Sequence[Reported]:
    """Return the newest audits of the account, then the newest of batches and files.

    Of each kind, the latest `limit` are read, and those that still have a report are returned.
    """
    rows = session.execute(_reported(), {"account_id": account_id, "most": limit})
    return [Reported(*row[:-1]) for row in rows if row.report_deleted_at is None]


@cache
def _reported() -> Select[*tuple[Any, ...]]:
    """Return the query of `list_reported`; building it takes longer than running it."""
    columns = [getattr(Audit, name) for name in (*Reported._fields, "report_deleted_at")]
    of_account = (Audit.account_id == bindparam("account_id"), Audit.status == DONE)
    kinds = (
        select(*columns)
        .where(*of_account, of_source(source))
        .order_by(Audit.created_at.desc(), Audit.id.desc())
        .limit(bindparam("most"))
        .subquery()
        for source in (ACCOUNT, None)
    )
    both = union_all(*map(select, kinds)).subquery()
    is_account = (both.c.source == ACCOUNT).desc()
    return select(both).order_by(is_account, both.c.created_at.desc(), both.c.id.desc())


def find_findings(
    session: Session, account_id: str, audit_id: str
) -> Sequence[ListedFinding] | None:
    """Return the findings of the account's audit by rank; None if it has no such audit."""
    rows = session.execute(_FINDINGS, {"account_id": account_id, "audit_id": audit_id}).all()
    if not rows:
        return None
    return [ListedFinding._make(row) for row in rows if row.id is not None]
