"""The number of ingest keys in each plan, exact under concurrent requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.models import Account, IngestKey, Subscription
from service.models.access.credentials import KeyLimitError, add_ingest_key
from tests.service.support.scenes import Sessions, add_account


def make_account(session: Session, plan: str, status: str = "active") -> Account:
    subscription = Subscription(plan=plan, status=status, provider="comp")
    return add_account(session, subscriptions=[subscription])


def test_a_plan_allows_so_many_keys(db_session: Session) -> None:
    for account, allowed in (
        (add_account(db_session), 0),
        (make_account(db_session, "pro"), 5),
        (make_account(db_session, "team", "past_due"), 50),
        (make_account(db_session, "team", "canceled"), 0),
    ):
        keys = [add_ingest_key(db_session, account)[0] for _ in range(allowed)]
        with pytest.raises(KeyLimitError) as raised:
            add_ingest_key(db_session, account)
        assert raised.value.allowed == allowed
        if keys:  # a revoked one makes room for another
            db_session.delete(keys[0])
            db_session.flush()
            add_ingest_key(db_session, account)
            with pytest.raises(KeyLimitError):
                add_ingest_key(db_session, account)


def test_of_many_at_once_no_more_than_allowed_succeed(own_sessions: Sessions) -> None:
    with own_sessions() as session:
        account_id = make_account(session, "pro").id
        session.commit()

    def mint(_: int) -> bool:
        with own_sessions() as session:
            try:
                add_ingest_key(session, session.get_one(Account, account_id))
            except KeyLimitError:
                return False
            session.commit()
            return True

    with ThreadPoolExecutor(8) as pool:
        minted = sum(pool.map(mint, range(16)))
    with own_sessions() as session:
        stored = session.scalar(select(func.count()).select_from(IngestKey))
    assert minted == stored == 5
