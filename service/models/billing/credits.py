"""Audit credits: one per paid audit, claimed in its transaction, returned if the audit fails.

A refund or a dispute revokes the credits that no audit uses; a dispute that the seller wins
restores them.

Every change locks the credit's row before reading it: of several concurrent claims on one credit
exactly one succeeds, and a rolled-back claim leaves the credit to the next. Callers commit.
"""

from typing import Final, NamedTuple

from sqlalchemy import Connection, exists, func, select, true, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.models.audits.audits import ReportRow
from service.models.base import new_id, utc_now
from service.models.billing.payments import Credit, Payment

IS_FREE: Final = Credit.audit_id.is_(None) & Credit.revoked_at.is_(None)


class NoCreditError(Exception):
    """The account has no free credit."""


def count_free_credits(session: Session, account_id: str) -> int:
    query = select(func.count()).where(Credit.account_id == account_id, IS_FREE)
    return session.scalar(query) or 0


class CreditCounts(NamedTuple):
    """An account's credits, each in one of three states."""

    free: int
    used: int
    revoked: int


def count_credits(session: Session, account_id: str) -> CreditCounts:
    query = select(
        func.count().filter(IS_FREE),
        func.count().filter(Credit.audit_id.is_not(None)),
        func.count().filter(Credit.audit_id.is_(None), Credit.revoked_at.is_not(None)),
    )
    return CreditCounts(*session.execute(query.where(Credit.account_id == account_id)).one())


def claim_credit(session: Session, account_id: str, audit_id: str) -> None:
    """Assign the account's oldest free credit to this audit; raise `NoCreditError` without one.

    The audit's row must exist; the claim commits or rolls back together with it.
    """
    # A credit locked by another claim is waited for, not skipped, because that may roll back.
    oldest = (
        select(Credit.id)
        .where(Credit.account_id == account_id, IS_FREE)
        .order_by(Credit.granted_at, Credit.id)
        .limit(1)
        .with_for_update()
    )
    credit_id = session.scalar(oldest)
    if credit_id is None:
        raise NoCreditError
    claimed = {"audit_id": audit_id, "claimed_at": func.now()}
    session.execute(update(Credit).where(Credit.id == credit_id).values(claimed))


def return_credit(connection: Connection, audit_id: str) -> bool:
    """Return the credit of an audit that fails, in the transaction that fails it.

    Return False if the audit has no credit, so that it is returned only once, or if it has a
    report: what failed is then another audit of it, which is free. If the credit's payment was
    refunded in the meantime, the returned credit is revoked.
    """
    is_reported = exists().where(ReportRow.audit_id == audit_id)
    named = select(Credit.id).where(Credit.audit_id == audit_id, ~is_reported).with_for_update()
    credit_id = connection.scalar(named)
    if credit_id is None:
        return False
    freed = {"audit_id": None, "claimed_at": None, "returned_at": func.now()}
    # A refund writes its time before it locks this row, so one of the two sees the other.
    connection.execute(update(Credit).where(Credit.id == credit_id).values(freed))
    # As `Payment.is_withdrawn` says of a payment that was loaded.
    is_disputed = Payment.disputed_at.is_not(None) & func.coalesce(
        Payment.dispute_won_at < Payment.disputed_at, true()
    )
    is_withdrawn = exists().where(
        Payment.id == Credit.payment_id, Payment.refunded_at.is_not(None) | is_disputed
    )
    revoked = update(Credit).where(Credit.id == credit_id, is_withdrawn)
    connection.execute(revoked.values(revoked_at=func.now()))
    return True


def grant_credits(session: Session, account_id: str, payment_id: str, quantity: int = 1) -> int:
    """Grant the credits that this payment buys, and restore revoked ones; return the new ones."""
    rows = [
        {"id": new_id(), "account_id": account_id, "payment_id": payment_id, "position": number}
        for number in range(1, quantity + 1)
    ]
    granted = insert(Credit).values([row | {"granted_at": utc_now()} for row in rows])
    once = granted.on_conflict_do_nothing(index_elements=[Credit.payment_id, Credit.position])
    new = session.scalars(once.returning(Credit.id)).all()
    revoked = (Credit.payment_id == payment_id, Credit.revoked_at.is_not(None))
    session.execute(update(Credit).where(*revoked).values(revoked_at=None))
    return len(new)


def revoke_credits(session: Session, payment_id: str) -> int:
    """Revoke the payment's credits that no audit uses; return how many."""
    # Lock the rows first, because a failing audit may be about to return a credit.
    session.execute(select(Credit.id).where(Credit.payment_id == payment_id).with_for_update())
    free = update(Credit).where(Credit.payment_id == payment_id, IS_FREE)
    revoked = free.values(revoked_at=func.now()).returning(Credit.id)
    return len(session.scalars(revoked).all())
