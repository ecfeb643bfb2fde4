"""What is uploaded fills Spend like what is pulled, each token once."""

import io

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from service.config import Config
from service.connections.exports import read_export
from service.models import Account, ProviderConnection, ReportedCost
from service.models.base import new_id
from service.models.calls.daily_spend import SpendRow
from service.models.connections.connections import count_by_state
from service.operations.connections.by_hand import store_reading
from service.operations.connections.job import pull
from tests.service.connections.exports import SAMPLES


def test_an_uploaded_report_fills_the_spend_without_a_request(
    own_database: Config, own_engine: Engine
) -> None:
    with Session(own_engine) as session:
        account = Account(email=f"{new_id()}@example.org")
        session.add(account)
        session.flush()
        reading = read_export(io.BytesIO(SAMPLES["cursor events"].text.encode()))
        held_id = store_reading(session, account.id, reading).id
        session.commit()
    pull(own_database, own_engine, held_id)
    with Session(own_engine) as session:
        row = session.get_one(ProviderConnection, held_id)
        assert (row.error, row.next_pull_at, row.lease_token) == (None, None, None)
        assert row.filled_at is not None
        tokens = sum(each.prompt_tokens for each in session.scalars(select(SpendRow)))
        assert tokens == SAMPLES["cursor events"].prompt
        assert count_by_state(session.connection()) == {}


def test_two_reports_of_the_same_costs_replace_each_other(db_session: Session) -> None:
    account = Account(email=f"{new_id()}@example.org")
    db_session.add(account)
    db_session.flush()
    for name in ("aws report", "focus of aws"):
        reading = read_export(io.BytesIO(SAMPLES[name].text.encode()))
        store_reading(db_session, account.id, reading)
    total = select(func.sum(ReportedCost.amount)).where(ReportedCost.account_id == account.id)
    assert db_session.scalar(total) == SAMPLES["focus of aws"].billed
