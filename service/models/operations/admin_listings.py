"""The pages of the admin lists, newest first, without records and secrets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from service.models.audits.audits import Audit
from service.models.billing.credits import IS_FREE
from service.models.billing.payments import Credit, PaymentEvent
from service.models.identity.accounts import FREE, Account, best_plan
from service.models.identity.early_access import EarlyAccess
from service.models.operations.admin_actions import AdminAction

PAGE_SIZE: Final = 25


@dataclass(frozen=True)
class Page:
    """One page of a list, counted from 1."""

    rows: Sequence[Any]
    number: int
    has_next: bool


@dataclass(frozen=True)
class AccountLine:
    id: str
    email: str
    created_at: datetime
    plan: str
    free_credits: int


def page_of_audits(session: Session, number: int) -> Page:
    columns = (
        *(Audit.id, Audit.status, Audit.source, Audit.attempts, Audit.created_at),
        *(Audit.finished_at, Audit.records, Audit.size_bytes, Audit.raw_purged_at, Audit.error),
        Account.email,
    )
    query = select(*columns).join(Account, Account.id == Audit.account_id)
    newest = (Audit.created_at.desc(), Audit.id.desc())
    return _page(session, query.order_by(*newest), number)


def with_age(audits: Page, now: datetime) -> Page:
    """Return the audits as mappings, each with its age."""
    ages = [age_seconds(row.created_at, now) for row in audits.rows]
    pairs = zip(audits.rows, ages, strict=True)
    rows = [{**row._mapping, "age_seconds": age} for row, age in pairs]
    return replace(audits, rows=rows)


def age_seconds(since: datetime, now: datetime) -> int:
    return max(0, int((now - since).total_seconds()))


def page_of_accounts(session: Session, number: int) -> Page:
    plan = best_plan(Account.__table__.c.id)
    free = select(func.count()).where(Credit.account_id == Account.id, IS_FREE)
    columns = (Account.id, Account.email, Account.created_at, plan, free.scalar_subquery())
    newest = (Account.created_at.desc(), Account.id.desc())
    page = _page(session, select(*columns).order_by(*newest), number)
    lines = [
        AccountLine(account_id, email, created_at, plan or FREE, free_credits)
        for account_id, email, created_at, plan, free_credits in page.rows
    ]
    return replace(page, rows=lines)


def page_of_events(session: Session, number: int) -> Page:
    """Return payment events without payloads, because those identify payers."""
    columns = (
        *(PaymentEvent.id, PaymentEvent.provider, PaymentEvent.event_id, PaymentEvent.type),
        *(PaymentEvent.occurred_at, PaymentEvent.received_at),
    )
    return _page(session, select(*columns).order_by(PaymentEvent.id.desc()), number)


def page_of_early_access(session: Session, number: int) -> Page:
    query = select(EarlyAccess.email, EarlyAccess.asked_at)
    newest = (EarlyAccess.asked_at.desc(), EarlyAccess.email)
    return _page(session, query.order_by(*newest), number)


def page_of_admin_actions(session: Session, number: int) -> Page:
    columns = (AdminAction.act, AdminAction.target, AdminAction.via, AdminAction.acted_at)
    return _page(session, select(*columns).order_by(AdminAction.id.desc()), number)


def _page(session: Session, query: Select[*tuple[Any, ...]], number: int) -> Page:
    """Return one page; query one extra row to see whether another page follows."""
    rows = session.execute(query.limit(PAGE_SIZE + 1).offset((number - 1) * PAGE_SIZE)).all()
    return Page(rows[:PAGE_SIZE], number, len(rows) > PAGE_SIZE)
