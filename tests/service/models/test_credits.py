"""Audit credits in a separate database, with concurrent transactions."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from service.models import Audit, Credit, Payment
from service.models.audits.audits import ReportRow
from service.models.base import utc_now
from service.models.billing.credits import (
    NoCreditError,
    claim_credit,
    count_free_credits,
    return_credit,
    revoke_credits,
)
from tests.service.support.scenes import Sessions, add_account
from tests.worker.support.promises import Note, always_in_full
from tests.worker.support.waiting import wait_until


def _add_account(sessions: Sessions, credits: int) -> str:
    """An account with credits, the older ones granted first."""
    with sessions() as session:
        account = add_account(session)
        for age in range(credits):
            granted_at = utc_now() - timedelta(minutes=age)
            session.add(Credit(account_id=account.id, granted_at=granted_at))
        session.commit()
        return account.id


def _add_audit(session: Session, account_id: str) -> str:
    audit = Audit(account_id=account_id, source="upload", blob_key="raw/x.jsonl")
    session.add(audit)
    session.flush()
    return audit.id


def _claim(sessions: Sessions, account_id: str) -> str:
    with sessions() as session:
        audit_id = _add_audit(session, account_id)
        claim_credit(session, account_id, audit_id)
        session.commit()
        return audit_id


def _free(sessions: Sessions, account_id: str) -> int:
    with sessions() as session:
        return count_free_credits(session, account_id)


def _return(sessions: Sessions, audit_id: str) -> bool:
    with sessions.begin() as session:
        return return_credit(session.connection(), audit_id)


def test_an_audit_with_a_report_keeps_its_credit_when_a_rerun_fails(own_sessions: Sessions) -> None:
    account_id = _add_account(own_sessions, 1)
    audit_id = _claim(own_sessions, account_id)
    with own_sessions.begin() as session:
        session.add(ReportRow(audit_id=audit_id, document=b"{}"))
    assert not _return(own_sessions, audit_id)
    assert _free(own_sessions, account_id) == 0


def test_a_claim_takes_the_oldest_free_credit(own_sessions: Sessions) -> None:
    account_id = _add_account(own_sessions, 3)
    audit_id = _claim(own_sessions, account_id)
    with own_sessions() as session:
        oldest = select(Credit).order_by(Credit.granted_at).limit(1)
        claimed = session.scalars(oldest).one()
    assert (claimed.audit_id, claimed.claimed_at is not None) == (audit_id, True)
    assert _free(own_sessions, account_id) == 2


def test_a_claim_needs_a_credit_of_the_account(own_sessions: Sessions) -> None:
    _add_account(own_sessions, 1)
    poor = _add_account(own_sessions, 0)
    with pytest.raises(NoCreditError):
        _claim(own_sessions, poor)
    assert _free(own_sessions, poor) == 0
    # A refunded credit is not free.
    account_id = _add_account(own_sessions, 1)
    with own_sessions.begin() as session:
        session.execute(update(Credit).values(revoked_at=func.now()))
    assert _free(own_sessions, account_id) == 0
    with pytest.raises(NoCreditError):
        _claim(own_sessions, account_id)


def test_a_credit_is_returned_once(own_sessions: Sessions) -> None:
    account_id = _add_account(own_sessions, 1)
    audit_id = _claim(own_sessions, account_id)
    assert [_return(own_sessions, audit_id) for _ in range(3)] == [True, False, False]
    assert _free(own_sessions, account_id) == 1
    second = _claim(own_sessions, account_id)
    assert not _return(own_sessions, audit_id)
    with own_sessions() as session:
        credit = session.scalars(select(Credit)).one()
    assert (credit.audit_id, credit.returned_at is not None) == (second, True)


def _pay(sessions: Sessions, account_id: str) -> str:
    """The payment that has bought the account's one credit."""
    with sessions.begin() as session:
        payment = Payment(account_id=account_id, provider="comp", reference="x", kind="credit")
        session.add(payment)
        session.flush()
        session.execute(update(Credit).values(payment_id=payment.id))
        return payment.id


def _refund(sessions: Sessions, payment_id: str) -> bool:
    """What a refund does, in its order: whether it took the credit back."""
    with sessions.begin() as session:
        session.execute(update(Payment).values(refunded_at=func.now()))
        return revoke_credits(session, payment_id) == 1


def test_a_returned_credit_of_a_refunded_payment_is_revoked(own_sessions: Sessions) -> None:
    account_id = _add_account(own_sessions, 1)
    payment_id = _pay(own_sessions, account_id)
    audit_id = _claim(own_sessions, account_id)
    assert not _refund(own_sessions, payment_id)
    assert _return(own_sessions, audit_id)
    assert _free(own_sessions, account_id) == 0


def test_a_refund_takes_back_the_credit_that_a_failing_audit_is_about_to_free(
    own_sessions: Sessions,
) -> None:
    account_id = _add_account(own_sessions, 1)
    payment_id = _pay(own_sessions, account_id)
    audit_id = _claim(own_sessions, account_id)
    with ThreadPoolExecutor(1) as pool, own_sessions() as failing:
        return_credit(failing.connection(), audit_id)
        refund = pool.submit(_refund, own_sessions, payment_id)
        _wait_until_it_waits(own_sessions)
        failing.commit()
    assert refund.result()
    assert _free(own_sessions, account_id) == 0


def test_a_credit_returned_twice_at_once_stays_with_the_claim_in_between(
    own_sessions: Sessions,
) -> None:
    account_id = _add_account(own_sessions, 1)
    audit_id = _claim(own_sessions, account_id)
    with ThreadPoolExecutor(1) as pool, own_sessions() as first:
        return_credit(first.connection(), audit_id)
        next_audit_id = _add_audit(first, account_id)
        claim_credit(first, account_id, next_audit_id)
        second = pool.submit(_return, own_sessions, audit_id)
        _wait_until_it_waits(own_sessions)
        first.commit()
    assert not second.result()
    with own_sessions() as session:
        assert session.scalars(select(Credit.audit_id)).one() == next_audit_id


@contextmanager
def _held_claim(sessions: Sessions, account_id: str) -> Iterator[Session]:
    """A transaction that has claimed and is neither committed nor rolled back yet."""
    with sessions() as session:
        claim_credit(session, account_id, _add_audit(session, account_id))
        yield session


def _wait_until_it_waits(sessions: Sessions) -> None:
    """Until a transaction waits for another's row."""
    query = text("SELECT count(*) FROM pg_locks WHERE NOT granted")

    def waits() -> Any:
        with sessions() as session:
            return session.scalar(query)

    wait_until(waits, 10)


def _after_another(sessions: Sessions, account_id: str, *, commits: bool) -> Future[str]:
    """A claim that began while another held the only credit, and ended after that one."""
    with ThreadPoolExecutor(1) as pool, _held_claim(sessions, account_id) as holder:
        waiter = pool.submit(_claim, sessions, account_id)
        _wait_until_it_waits(sessions)
        assert not waiter.done()
        holder.commit() if commits else holder.rollback()
    return waiter


@always_in_full
def test_a_claim_that_is_rolled_back_leaves_the_credit_to_others(
    own_sessions: Sessions, note: Note, occasion: str
) -> None:
    losses = 0
    for _ in range(20):
        waiter = _after_another(own_sessions, _add_account(own_sessions, 1), commits=False)
        losses += waiter.exception() is not None
    note("4 a rolled-back claim leaves its credit to the one that waits", 20, losses)


def test_a_claim_that_is_committed_leaves_the_next_credit_or_none(own_sessions: Sessions) -> None:
    one = _after_another(own_sessions, _add_account(own_sessions, 1), commits=True)
    assert isinstance(one.exception(), NoCreditError)
    two = _after_another(own_sessions, _add_account(own_sessions, 2), commits=True)
    assert two.exception() is None
