"""The number of ingest keys in each plan, exact under concurrent requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from service.models import Account, IngestKey, Subscription
from service.models.access.credentials import KeyLimitError, add_ingest_key


def add_account(session: Session, plan: str | None, status: str = "active") -> Account:
    account = Account(email="keys@example.org")
    if plan:
        account.subscriptions = [Subscription(plan=plan, status=status, provider="comp")]
    session.add(account)
    session.flush()
    return account


@pytest.mark.parametrize(
    ("plan", "status", "allowed"),
    [(None, "", 0), ("pro", "active", 5), ("team", "past_due", 50), ("team", "canceled", 0)],
)
def test_a_plan_allows_so_many_keys(
    db_session: Session, plan: str | None, status: str, allowed: int
) -> None:
    account = add_account(db_session, plan, status)
    for _ in range(allowed):
        add_ingest_key(db_session, account)
    with pytest.raises(KeyLimitError) as raised:
        add_ingest_key(db_session, account)
    assert raised.value.allowed == allowed


def test_a_revoked_key_makes_room_for_another(db_session: Session) -> None:
    account = add_account(db_session, "pro")
    keys = [add_ingest_key(db_session, account)[0] for _ in range(5)]
    db_session.delete(keys[0])
    db_session.flush()
    add_ingest_key(db_session, account)
    with pytest.raises(KeyLimitError):
        add_ingest_key(db_session, account)


def test_of_many_at_once_no_more_than_allowed_succeed(
    own_sessions: "sessionmaker[Session]",
) -> None:
    with own_sessions() as session:
        account_id = add_account(session, "pro").id
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
