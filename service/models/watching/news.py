"""Unusual days and budgets that no mail has had yet."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, exists, func, select, update

from service.models.identity.accounts import Account
from service.models.mail.outbox import Mail
from service.models.watching.budgets import LATEST, Budget, BudgetNotice, are_unmailed
from service.models.watching.watches import UnusualDay, were_checked, were_judged

SPEND_NOTICE: Final = "spend_notice"  # the kind of mail


def find_recipient(connection: Connection, account_id: str, dedupe_key: str) -> str | None:
    """Return the address of an account that wants the mail and has not had it."""
    is_posted = exists().where(Mail.dedupe_key == dedupe_key)
    wanted = select(Account.email).where(Account.id == account_id, Account.spend_mails, ~is_posted)
    return connection.scalar(wanted)


def take_days(connection: Connection, account_id: str) -> Sequence[Row[Any]]:
    """Mark unusual days as mailed and return them, oldest first."""
    new = (UnusualDay.mailed_at.is_(None), UnusualDay.created_at > func.now() - LATEST)
    taken = update(UnusualDay).where(
        UnusualDay.account_id == account_id, *new, were_judged(account_id)
    )
    columns = (UnusualDay.day, UnusualDay.series)
    rows = connection.execute(taken.values(mailed_at=func.now()).returning(*columns)).all()
    return sorted(rows, key=lambda row: row.day)


def take_budgets(connection: Connection, account_id: str) -> Sequence[Any]:
    """Mark notices of budgets as mailed and return them with their routes."""
    new = (*are_unmailed(account_id), were_checked(account_id))
    taken = update(BudgetNotice).where(*new).values(mailed_at=func.now())
    columns = (
        *(Budget.route, BudgetNotice.budget_id, BudgetNotice.month, BudgetNotice.threshold),
        *(BudgetNotice.amount_usd, BudgetNotice.spend_usd, BudgetNotice.forecast_usd),
        BudgetNotice.created_at,
    )
    return connection.execute(taken.returning(*columns)).all()
