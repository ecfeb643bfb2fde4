"""What providers report and no call covers: each token and each dollar of it once."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.connections.provider import UsageLine
from service.models import BillMonth, ProviderConnection, SpendRow
from service.models.audits.audit_settings import save_price_terms
from service.models.base import utc_now
from service.models.calls.spend import Period, Selection, iter_spend
from service.models.connections.bill import newest_months
from service.models.connections.connections import remove_connection
from service.models.connections.unsent import (
    delete_old_unsent,
    replace_unsent,
    sum_unsent,
    wake_outdated,
)
from service.operations.connections import job
from service.operations.connections.billing import Billed
from service.operations.connections.coverage import find_canonical, find_unsent
from service.operations.connections.job import pull
from service.operations.connections.pricing import price_with
from service.operations.connections.reconciliation import (
    CORRECTION,
    PENDING,
    UNEXPLAINED,
    lock_months,
    reconcile,
)
from service.operations.price_book import find_version, load_prices
from tests.service.connections.connecting import Connected
from tests.service.connections.reports import TODAY, Reports
from tests.service.connections.worlds import LONG_AGO, make_provider
from tests.service.support.spend import add_spend, spend_line

GPT = "gpt-4o-2024-08-06"
DAY = TODAY - timedelta(days=1)


@pytest.fixture
def openai(db_session: Session) -> Reports:
    return Reports(db_session, "openai")


def _unsent(reports: Reports) -> list[Any]:
    days = (TODAY - timedelta(days=30), TODAY)
    return find_unsent(reports.session.connection(), reports.account_id, "openai", days)


def test_speech_without_tokens_is_spend(openai: Reports, db_session: Session) -> None:
    units = {"input_characters": 1_000_000}
    usd = {"list_usd": Decimal(15), "cost_usd": Decimal(15)}
    openai.add("tts-1", "key_1", days=1, units=units, requests=30, **usd)
    [line] = _unsent(openai)
    assert (line.cost_usd, line.calls, line.prompt_tokens) == (15, 30, 0)
    none = dict.fromkeys(("prompt_tokens", "completion_tokens"), 0)
    none |= dict.fromkeys(("cached_tokens", "cache_write_tokens"), 0)
    add_spend(db_session, openai.account_id, spend_line(DAY, "9", model="tts-1", **none))
    assert [line.cost_usd for line in _unsent(openai)] == [6]


@pytest.mark.parametrize("name", ["aws", "bedrock", "Amazon-Bedrock"])
def test_calls_of_bedrock_cover_what_aws_reports(db_session: Session, name: str) -> None:
    reports, model = Reports(db_session, "aws"), "anthropic.claude-haiku-4-5-20251001-v1:0"
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100}
    reports.add(model, "", days=1, **counts)
    reports.add_cost(DAY, "3", model)
    none = {"cached_tokens": 0, "cache_write_tokens": 0}
    line = spend_line(DAY, "1", provider=name, model=model, **counts, **none)
    add_spend(db_session, reports.account_id, line)
    days = (DAY, TODAY)
    connection = db_session.connection()
    assert find_unsent(connection, reports.account_id, "aws", days) == []
    billed = Billed(db_session, reports.account_id, Period(DAY, DAY))
    wanted = Selection(DAY, DAY, keys=("day", "provider", "model"))
    [found] = iter_spend(db_session, reports.account_id, wanted)
    assert billed.share(DAY, name, model, found.sums).usd == 3


def test_measures_are_priced_where_the_model_is_billed_by_them(openai: Reports) -> None:
    price = price_with(load_prices(openai.session.connection()), "openai")
    at = datetime(2026, 2, 1, tzinfo=UTC)

    def cost(model: str, **units: int) -> Decimal | None:
        return price(UsageLine(bucket=at, model=model, units=units))

    assert cost("whisper-1", input_audio_seconds=60) == Decimal("0.006")
    assert cost("tts-1", input_characters=1_000) == Decimal("0.015")
    assert cost("gpt-4o-mini-tts", input_characters=1_000) is None


def test_calls_that_cached_less_than_the_report_leave_nothing_below_zero(
    openai: Reports, db_session: Session
) -> None:
    counts = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "cache_write_tokens": 0}
    openai.add(GPT, "key_1", days=1, **counts, cached_tokens=900_000, requests=20)
    line = spend_line(DAY, "2.5", model=GPT, **counts, cached_tokens=0)
    add_spend(db_session, openai.account_id, line)
    for found in _unsent(openai):
        assert min(found.cost_usd, found.list_usd, found.cached_tokens) >= 0
        assert found.cached_tokens + found.cache_write_tokens <= found.prompt_tokens


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),  # twice the price
        ("of-nobody-2026-01-01", "of-nobody"),
    ],
)
def test_a_date_stays_in_a_name_where_it_has_another_price(
    openai: Reports, model: str, name: str
) -> None:
    book = load_prices(openai.session.connection())
    assert find_canonical(book, "openai", model, TODAY) == name


def test_tokens_without_a_price_are_divided_by_tokens(openai: Reports) -> None:
    for project, prompt in (("proj_1", 3_000), ("proj_2", 1_000)):
        more = {"project_id": project, "list_usd": None, "cost_usd": None}
        openai.add("of-nobody", "key_1", days=1, prompt_tokens=prompt, requests=1, **more)
    found = {line.route: line.prompt_tokens for line in _unsent(openai)}
    assert found == {"not sent: proj_1": 3_000, "not sent: proj_2": 1_000}


def test_a_day_that_was_not_billed_when_its_month_was_locked_is_no_correction(
    openai: Reports,
) -> None:
    usd = {"list_usd": Decimal(100), "cost_usd": Decimal(100)}
    openai.add(GPT, "key_1", days=5, prompt_tokens=40_000_000, **usd)
    for number in range(2, 6):
        openai.add_cost(TODAY - timedelta(days=number), "100", GPT)
    connection = openai.session.connection()
    later = datetime(2026, 12, 11, tzinfo=UTC)
    lock_months(connection, openai.account_id, "openai", later)
    openai.add_cost(DAY, "100", GPT)
    found = reconcile(connection, openai.account_id, "openai", TODAY.replace(day=1))
    assert found.locked_at == later
    assert found.part(CORRECTION) == 0
    assert found.unexplained_usd == 0


def test_a_day_that_was_not_over_when_its_costs_were_pulled_is_not_billed_yet(
    openai: Reports,
) -> None:
    """Usage is pulled every hour and costs daily, so the newest day has more of one."""
    usd = {"list_usd": Decimal(100), "cost_usd": Decimal(100)}
    openai.add(GPT, "key_1", days=5, prompt_tokens=40_000_000, **usd)
    for number, amount in enumerate(("20", "100", "100", "100", "100"), start=1):
        openai.add_cost(TODAY - timedelta(days=number), amount, GPT)
    connection = openai.session.connection()
    month = TODAY.replace(day=1)
    assert reconcile(connection, openai.account_id, "openai", month).part(UNEXPLAINED) == -80
    row = openai.session.get_one(ProviderConnection, openai.id)
    row.progress = {"costs": {"at": f"{DAY}T05:00:00+00:00"}}
    openai.session.flush()
    found = reconcile(connection, openai.account_id, "openai", month)
    assert (found.part(PENDING), found.part(UNEXPLAINED)) == (Decimal(-80), Decimal(0))


def test_old_days_of_what_was_not_sent_are_deleted(openai: Reports) -> None:
    connection, account_id, today = openai.session.connection(), openai.account_id, utc_now().date()
    usd = {"list_usd": Decimal(1), "cost_usd": Decimal(1)}
    openai.add(GPT, "key_1", days=1, prompt_tokens=400_000, **usd)
    [line] = _unsent(openai)
    days = (today - timedelta(days=500), today)
    rows = [type(line)(**{**_fields(line), "day": day}) for day in days]
    replace_unsent(connection, account_id, "openai", rows)
    assert delete_old_unsent(connection, 400, 100) == 1
    assert sum_unsent(connection, account_id, days) == 1


def _fields(line: Any) -> dict[str, Any]:
    return {name: getattr(line, name) for name in line.__struct_fields__}


def test_limits_are_of_months_and_not_of_bills() -> None:
    months = [(date(2026, month, 1), name) for month in (3, 2, 1) for name in ("a", "b")]
    assert newest_months(months, 2) == months[:4]


def _everything(connected: Connected) -> tuple[int, Decimal]:
    """Return the tokens and dollars of all spend."""
    with connected.engine.connect() as connection:
        query = select(SpendRow.prompt_tokens + SpendRow.completion_tokens, SpendRow.cost_usd)
        rows = connection.execute(query.where(SpendRow.account_id == connected.account_id)).all()
    return sum(row[0] for row in rows), sum((row[1] for row in rows), Decimal(0))


def _wake(connected: Connected) -> int:
    """Let the sweeper look, as if the last comparison were long ago."""
    with connected.engine.begin() as connection:
        row = update(ProviderConnection).where(ProviderConnection.id == connected.id)
        connection.execute(row.values(filled_at=LONG_AGO, next_pull_at=None))
        return wake_outdated(connection, find_version(connection))


@pytest.mark.parametrize("how", ["removed", "off"])
def test_later_calls_are_compared_where_nothing_is_pulled(
    connect: Callable[..., Connected], how: str
) -> None:
    connected = connect(make_provider("anthropic", days=3, rows=1))
    connected.pull()
    before = _everything(connected)
    if how == "removed":
        remove_connection(connected.session, connected.account_id, connected.id, keep=True)
        connected.session.commit()
    else:
        vars(connected)["config"] = type(connected.config)(
            **{**vars(connected.config), "connections": "off"}
        )
    with connected.engine.connect() as connection:
        lines = [dict(row._mapping) for row in connection.execute(select(SpendRow.__table__))]
    for line in lines:
        del line["id"], line["file_id"], line["account_id"]
    add_spend(connected.session, connected.account_id, *lines)
    assert _everything(connected)[0] == 2 * before[0]
    asked = len(connected.provider.stub.requests)
    assert _wake(connected) == 1
    pull(connected.config, connected.engine, connected.id)
    assert _everything(connected) == before
    assert len(connected.provider.stub.requests) == asked
    assert (connected.row.next_pull_at is None) == (how == "removed")


def test_a_new_discount_reprices_what_was_pulled(connect: Callable[..., Connected]) -> None:
    connected = connect(make_provider("anthropic", days=3, rows=1))
    connected.pull()
    tokens, usd = _everything(connected)
    assert usd > 0
    assert _wake(connected) == 0
    terms = '[discounts.anthropic]\nshare = 0.5\nfrom = "2020-01-01"\n'
    save_price_terms(connected.session, connected.account_id, terms)
    connected.session.commit()
    assert _wake(connected) == 1
    pull(connected.config, connected.engine, connected.id)
    repriced = _everything(connected)
    assert repriced[0] == tokens
    assert repriced[1] == pytest.approx(usd / 2, abs=Decimal("1E-6"))
    assert _wake(connected) == 0


def test_months_are_locked_once_all_of_them_was_pulled(
    connect: Callable[..., Connected], monkeypatch: pytest.MonkeyPatch
) -> None:
    connected = connect(make_provider("anthropic", days=75, rows=1))

    def count() -> int:
        connected.session.expire_all()
        return len(connected.session.scalars(select(BillMonth)).all())

    stops = iter([False] * 4)  # the newest days of each report are there, and the others aren't
    monkeypatch.setattr(job, "is_stop_requested", lambda: next(stops, True))
    pull(connected.config, connected.engine, connected.id)
    assert count() == 0
    monkeypatch.undo()
    connected.pull()
    assert count() >= 1
