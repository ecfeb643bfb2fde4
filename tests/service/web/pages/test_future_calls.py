"""Calls dated after today: /imports/future, the API, and what other pages say of them."""

import re
from datetime import date, timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import Account, CallFile, CallImport, DeletedCalls
from service.models.base import new_id
from service.models.calls import future_calls
from service.models.calls.account_days import AccountDays
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Sessions, Tenant, add_browser, error_of
from tests.service.support.spend import add_spend, spend_line, today

PAGE, API = "/imports/future", "/api/v1/future-calls"
NEAR, FAR = today() + timedelta(days=2), today() + timedelta(days=2_700)


def add_calls(session: Session, account_id: str, *days: Any) -> str:
    """Add an import with ten calls of $1.50 on each of these days."""
    row = CallImport(audit_id=new_id(), account_id=account_id, import_id=new_id())
    row.content_hash, row.calls = b"", 10 * len(days)
    row.first_day, row.last_day = min(days), max(days)
    session.add(row)
    add_spend(session, account_id, *(spend_line(day) for day in days))
    return row.audit_id


def pending(session: Session, account_id: str) -> list[tuple[Any, ...]]:
    own = DeletedCalls.account_id == account_id
    query = select(DeletedCalls.audit_id, DeletedCalls.first_day, DeletedCalls.last_day)
    return [tuple(row) for row in session.execute(query.where(own))]


def test_an_account_without_such_calls_sees_none(ada: Browser, db_session: Session) -> None:
    add_calls(db_session, ada.account_id, today())
    assert "No calls dated after today" in ada.get(PAGE)
    for path in ("/spend", "/dashboard", "/imports", "/settings/budgets"):
        assert "after today" not in ada.get(path)
    assert ada.act("/settings", f"{PAGE}/delete").headers["Location"].endswith("deleted=0")
    assert "There was nothing to delete." in ada.get(f"{PAGE}?deleted=0")


def test_pages_say_what_lies_after_today_and_include_none_of_it(
    ada: Browser, db_session: Session
) -> None:
    before = words_of(ada.get("/spend"))
    assert "No calls yet" in before
    add_calls(db_session, ada.account_id, NEAR, FAR)
    assert "No calls yet" in ada.get("/spend")
    add_calls(db_session, ada.account_id, today() - timedelta(days=40))
    for path in ("/spend", "/dashboard", "/imports", "/settings/budgets"):
        page = words_of(ada.get(path))
        assert "Not included: 20 calls after today , $3.00" in page, path
    # The last day with calls is not one that is still to come.
    for path in ("/spend", "/dashboard", "/route?route=chat"):
        page = ada.get(path)
        assert str(today() - timedelta(days=40)) in page
        assert str(FAR) not in page


@pytest.mark.parametrize("zone", ["Pacific/Pago_Pago", "Pacific/Kiritimati"])
def test_today_is_that_of_the_zone_where_figures_are(
    ada: Browser, db_session: Session, zone: str
) -> None:
    """11 hours behind UTC and 14 ahead, so one of them has another day than UTC now."""
    of = AccountDays(zone)
    db_session.get_one(Account, ada.account_id).time_zone = zone
    shift = 1 if zone == "Pacific/Kiritimati" else -1
    # Today there, and the day after.
    lines = [spend_line(of.today() - timedelta(days=shift), day_shift=shift)]
    lines.append(spend_line(of.today() + timedelta(days=1 - shift), "7", day_shift=shift))
    # The same on days that UTC and the zone have in common.
    lines.append(spend_line(of.today(), "2", day_shift=0))
    lines.append(spend_line(of.today() + timedelta(days=1), "9", day_shift=0))
    add_spend(db_session, ada.account_id, *lines)
    db_session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
    db_session.commit()
    for path in ("/spend", "/dashboard", "/settings/budgets"):
        page = words_of(ada.get(path))
        assert "Not included: 20 calls after today , $16.00" in page, path
    assert "$3.50" in words_of(ada.get("/spend"))


def test_calls_are_listed_and_deleted_by_day_or_all_at_once(
    ada: Browser, db_session: Session
) -> None:
    own = add_calls(db_session, ada.account_id, today(), NEAR, FAR)
    add_calls(db_session, ada.account_id, today())
    page = ada.get(PAGE)
    rows = re.findall("<tr><td>(.*?)</td>", page)
    assert len(rows) == 2
    assert "20 calls" in words_of(page)
    answer = ada.post(PAGE, f"{PAGE}/delete", day=str(FAR))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PAGE}?deleted=10")
    assert pending(db_session, ada.account_id) == [(own, FAR, FAR)]
    assert "Deleting 10 calls. This takes up to a minute." in ada.get(f"{PAGE}?deleted=10")
    assert "Deleting calls. This takes up to a minute." in ada.get(PAGE)
    ada.post(PAGE, f"{PAGE}/delete")
    everything = (own, today() + timedelta(days=1), date.max)
    assert pending(db_session, ada.account_id)[1:] == [everything]
    assert words_of(ada.get("/settings/activity")).count("Calls dated after today deleted") == 2


def test_neither_today_nor_another_day_of_the_past_is_deleted(
    ada: Browser, db_session: Session
) -> None:
    add_calls(db_session, ada.account_id, today(), today() - timedelta(days=9))
    for day in (str(today()), str(today() - timedelta(days=9)), ""):
        assert (
            ada.act("/settings", f"{PAGE}/delete", day=day)
            .headers["Location"]
            .endswith("deleted=0")
        )
    assert ada.act("/settings", f"{PAGE}/delete", day="soon").status_code == 422
    assert pending(db_session, ada.account_id) == []


def test_a_long_list_is_cut(
    ada: Browser, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(future_calls, "MOST_LINES", 2)
    monkeypatch.setattr("service.web.pages.imports.future.MOST_LINES", 2)
    add_calls(db_session, ada.account_id, NEAR, FAR, FAR + timedelta(days=1))
    page = ada.get(PAGE)
    assert "Only the first 2 lines are listed." in page
    assert "Delete 30 calls" in page


def test_the_api_lists_them_with_a_token_and_deletes_them_with_a_session(
    client: FlaskClient, tenant: Tenant, sessions: Sessions, db_session: Session
) -> None:
    own = add_calls(db_session, tenant.account_id, NEAR, FAR)
    line = {"route": "chat", "provider": "openai", "model": "gpt-5.5", "calls": 10, "cost_usd": 1.5}
    listed = {
        "calls": 20,
        "cost_usd": 3.0,
        "is_deleting": False,
        "lines": [{"day": str(day), **line} for day in (NEAR, FAR)],
    }
    assert client.get(API, headers=tenant.reads).get_json() == listed
    spend = client.get("/api/v1/spend", headers=tenant.reads).get_json()
    assert (spend["totals"]["calls"], spend["after_today"]) == (0, {"calls": 20, "cost_usd": 3.0})
    assert client.delete(API, headers=tenant.reads).status_code == 401
    browser = add_browser(sessions, tenant.account_id)
    for wrong in (f"from={FAR}&to={NEAR}", "from=soon", "to=1999-01-01"):
        error_of(client.delete(f"{API}?{wrong}", headers=browser.headers), 422, "validation_error")
    answer = client.delete(f"{API}?from={FAR}", headers=browser.headers)
    assert (answer.status_code, answer.get_json()) == (202, {"calls": 10})
    assert pending(db_session, tenant.account_id) == [(own, FAR, date.max)]
    assert client.get(API, headers=tenant.reads).get_json() == {**listed, "is_deleting": True}
