"""What is uploaded fills Spend like what is pulled, each token once."""

import io
from datetime import date, timedelta

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from service.config import Config
from service.connections import list_providers
from service.connections.exports import UnreadableExportError, read_export
from service.connections.provider import CostLine
from service.models import AccountFinding, BillMonth, ProviderConnection, ReportedCost
from service.models.base import utc_now
from service.models.calls.daily_spend import SpendRow
from service.models.connections.bill import sum_costs
from service.models.connections.connections import (
    claim_connection,
    count_by_state,
    release_compared,
)
from service.operations.connections.by_hand import store_reading, warn_of_unused
from service.operations.connections.connecting import connect, describe_sight, disconnect
from service.operations.connections.job import pull
from tests.cases import each_case
from tests.service.connections.exports import SAMPLES
from tests.service.connections.reports import Reports
from tests.service.support.scenes import add_account


def test_an_uploaded_report_fills_the_spend_without_a_request(
    own_database: Config, own_engine: Engine
) -> None:
    with Session(own_engine) as session:
        account = add_account(session)
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
    account = add_account(db_session)
    for name in ("aws report", "focus of aws"):
        reading = read_export(io.BytesIO(SAMPLES[name].text.encode()))
        store_reading(db_session, account.id, reading)
    total = select(func.sum(ReportedCost.amount)).where(ReportedCost.account_id == account.id)
    assert db_session.scalar(total) == SAMPLES["focus of aws"].billed


def _store(session: Session, account_id: str, text: str) -> str:
    return store_reading(session, account_id, read_export(io.BytesIO(text.encode()))).id


def test_reports_of_two_organizations_are_kept_apart(db_session: Session) -> None:
    account = add_account(db_session)
    costs = SAMPLES["openai costs"].text
    theirs = costs.replace(",o,", ",other,").replace("proj_1", "proj_2")
    first = _store(db_session, account.id, costs)
    assert _store(db_session, account.id, costs) == first
    second = _store(db_session, account.id, theirs)
    assert second != first
    total = select(func.sum(ReportedCost.amount)).where(ReportedCost.account_id == account.id)
    assert db_session.scalar(total) == 2 * SAMPLES["openai costs"].billed
    # What doesn't name its organization is of the one that has its projects.
    usage = SAMPLES["openai usage"].text
    assert _store(db_session, account.id, usage) == first
    assert _store(db_session, account.id, usage.replace("proj_1", "proj_2")) == second
    with pytest.raises(UnreadableExportError, match="which organization"):
        _store(db_session, account.id, usage.replace("proj_1", "proj_3"))


def test_a_file_of_two_billing_accounts_is_stored_as_two(db_session: Session) -> None:
    account = add_account(db_session)
    header, *rows = SAMPLES["focus of aws"].text.splitlines()
    text = "\n".join(
        [f"BillingAccountId,{header}", *(f"{n % 2},{row}" for n, row in enumerate(rows))]
    )
    _store(db_session, account.id, SAMPLES["focus of aws"].text)
    for _twice in range(2):
        _store(db_session, account.id, text)
    known = select(ProviderConnection.organization).order_by(ProviderConnection.organization)
    assert db_session.scalars(known).all() == ["0", "1"]
    total = select(func.sum(ReportedCost.amount)).where(ReportedCost.account_id == account.id)
    assert db_session.scalar(total) == SAMPLES["focus of aws"].billed


def test_rows_without_an_organization_are_of_the_only_one_in_their_file(
    db_session: Session,
) -> None:
    account = add_account(db_session)
    header, *rows = SAMPLES["focus of aws"].text.splitlines()

    def name(*organizations: str) -> str:
        named = [f"{who},{row}" for who, row in zip(organizations, rows, strict=True)]
        return "\n".join([f"BillingAccountId,{header}", *named])

    total = select(func.sum(ReportedCost.amount)).where(ReportedCost.account_id == account.id)
    for text in (name("1", "", "1", "1"), name("", "1", "1", "1")):
        _store(db_session, account.id, text)
        assert db_session.scalar(total) == SAMPLES["focus of aws"].billed
    with pytest.raises(UnreadableExportError, match="several organizations"):
        _store(db_session, account.id, name("1", "2", "", "1"))


def test_files_without_names_of_projects_are_of_the_organization_that_has_their_ids(
    db_session: Session,
) -> None:
    account = add_account(db_session)
    costs = SAMPLES["openai costs"].text.replace(",Search,", ",,")
    first = _store(db_session, account.id, costs)
    _store(db_session, account.id, costs.replace(",o,", ",p,").replace("proj_1", "proj_2"))
    assert _store(db_session, account.id, SAMPLES["openai usage"].text) == first


@pytest.mark.parametrize(
    ("identity", "used"), [(["proj_9"], True), (["proj_1", "proj_9"], False), ([], False)]
)
def test_a_report_of_another_organization_is_used_beside_a_connection(
    db_session: Session, identity: list[str], used: bool
) -> None:
    """Whether the connection or the upload came first; where it isn't certain, only one counts."""
    reports = Reports(db_session, "openai")
    pulled = db_session.get_one(ProviderConnection, reports.id)
    pulled.sight = {"identity": identity}
    for day in (1, 2):
        reports.add_cost(date(2026, 9, day), "10", "gpt-4o", project_id="")
    held_id = _store(db_session, reports.account_id, SAMPLES["openai costs"].text)
    days = (date(2026, 9, 1), date(2026, 9, 30))
    billed = sum(row.amount for row in sum_costs(db_session, reports.account_id, "openai", days))
    assert billed == 20 + used * SAMPLES["openai costs"].billed
    warning = warn_of_unused(db_session, db_session.get_one(ProviderConnection, held_id))
    assert ("2 of these days" in warning) != used
    sight = {"organization": "", "identity": ["proj_8"]}
    key = "sk-admin-other"
    other = connect(db_session, reports.account_id, list_providers()["openai"], key, sight)
    reports.add_cost(date(2026, 9, 1), "1", "gpt-4o", connection_id=other.id, project_id="proj_8")
    again = sum(row.amount for row in sum_costs(db_session, reports.account_id, "openai", days))
    assert again == billed + 1


def test_a_late_upload_opens_its_months_which_are_locked_again(
    own_database: Config, own_engine: Engine
) -> None:
    text = SAMPLES["cursor events"].text.replace("2026-09-", "2025-09-")
    reading = read_export(io.BytesIO(text.encode()))
    billed = sum(line.amount for line in reading.lines if isinstance(line, CostLine))
    with Session(own_engine) as session:
        account = add_account(session)
        for month in (8, 9):
            values = {"month": date(2025, month, 1), "locked_at": utc_now(), "billed_usd": 99}
            session.add(BillMonth(account_id=account.id, provider="cursor", **values, days={}))
        session.flush()
        held_id = store_reading(session, account.id, reading).id
        months = select(BillMonth.month, BillMonth.billed_usd).order_by(BillMonth.month)
        assert [row[0].month for row in session.execute(months)] == [8]
        session.commit()
    pull(own_database, own_engine, held_id)
    with Session(own_engine) as session:
        assert session.execute(months).all()[1] == (date(2025, 9, 1), billed)


def test_totals_of_an_upload_are_findings_until_other_reports_are_deleted(
    own_database: Config, own_engine: Engine
) -> None:
    day = (utc_now() - timedelta(days=1)).timestamp()
    header = "start_time,num_model_requests,input_tokens,output_tokens,model,project_id\n"
    text = f"{header}{day:.0f},10,10000000,1000000,gpt-4-0613,proj_1\n"
    reading = read_export(io.BytesIO(text.encode()))
    with Session(own_engine) as session:
        account = add_account(session)
        held = store_reading(session, account.id, reading)
        held_id, held.error, held.failing_since, held.failures = held.id, "internal", utc_now(), 2
        session.commit()
    pull(own_database, own_engine, held_id)
    with Session(own_engine) as session:
        held = session.get_one(ProviderConnection, held_id)
        assert (held.error, held.failing_since, held.failures) == (None, None, 0)
        assert len(session.scalars(select(AccountFinding)).all()) == 1
        pulled = ProviderConnection(account_id=held.account_id, provider="openai")
        session.add(pulled)
        session.flush()
        disconnect(session, pulled, keep=False)
        session.expire_all()
        assert session.scalars(select(AccountFinding)).all() == []
        session.commit()


def test_an_upload_while_another_is_compared_is_compared_next(own_engine: Engine) -> None:
    reading = read_export(io.BytesIO(SAMPLES["cursor events"].text.encode()))
    with Session(own_engine) as session:
        account = add_account(session)
        account_id, held_id = account.id, store_reading(session, account.id, reading).id
        session.commit()
    with own_engine.begin() as connection:
        held = claim_connection(connection, held_id)
    assert held is not None
    with Session(own_engine) as session:
        store_reading(session, account_id, reading)
        session.commit()
    with own_engine.begin() as connection:
        release_compared(connection, held, None)
    with Session(own_engine) as session:
        row = session.get_one(ProviderConnection, held_id)
        assert row.next_pull_at is not None
        assert row.lease_token is None


@each_case(
    ("sight", "said"),
    [
        ({"by_hand": True}, "Reports that you uploaded"),
        ({"by_hand": True, "organization": "acme"}, "acme, reports that you uploaded"),
        ({"projects": 0}, "No costs yet"),
    ],
)
def test_what_a_connection_sees_begins_with_a_capital_letter_or_a_name(
    sight: dict[str, object], said: str
) -> None:
    assert describe_sight(sight) == said
