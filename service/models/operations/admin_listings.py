"""The pages of the admin lists, newest first, without records and secrets."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from service.models.audits.audits import Audit
from service.models.billing.payments import Credit, PaymentEvent
from service.models.identity.accounts import Account
from service.models.identity.early_access import EarlyAccess
from service.models.operations.admin_actions import AdminAction

PAGE_SIZE: Final = 50


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
        *(
            Audit.id,
            Audit.status,
            Audit.source,
            Audit.attempts,
            Audit.created_at,
            Audit.finished_at,
        ),
        *(Audit.records, Audit.size_bytes, Audit.raw_purged_at, Audit.error, Account.email),
    )
    query = select(*columns).join(Account, Account.id == Audit.account_id)
    return _page(session, query.order_by(Audit.created_at.desc(), Audit.id.desc()), number)


def with_age(audits: Page, now: datetime) -> Page:
    """Return the audits as mappings, each with its age."""
    ages = [age_seconds(row.created_at, now) for row in audits.rows]
    pairs = zip(audits.rows, ages, strict=True)
    rows = [{**row._mapping, "age_seconds": age} for row, age in pairs]
    return replace(audits, rows=rows)


def age_seconds(since: datetime, now: datetime) -> int:
    return max(0, int((now - since).total_seconds()))


def page_of_accounts(session: Session, number: int) -> Page:
    query = select(Account).order_by(Account.created_at.desc(), Account.id.desc())
    page = _page(session, query, number)
    accounts = [account for (account,) in page.rows]
    free = _free_credits(session, [account.id for account in accounts])
    lines = [
        AccountLine(
            account.id, account.email, account.created_at, account.plan, free.get(account.id, 0)
        )
        for account in accounts
    ]
    return Page(lines, page.number, page.has_next)


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


def _free_credits(session: Session, account_ids: Sequence[str]) -> dict[str, int]:
    query = (
        select(Credit.account_id, func.count())
        .where(Credit.account_id.in_(account_ids))
        .where(Credit.audit_id.is_(None), Credit.revoked_at.is_(None))
        .group_by(Credit.account_id)
    )
    return {account_id: count for account_id, count in session.execute(query)}
