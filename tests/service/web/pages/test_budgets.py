"""Budgets are added, changed and removed by their owner, and shown with what is spent."""

from decimal import Decimal

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from service.models import Account, Budget
from service.models.base import utc_now
from service.models.watching import budgets
from tests.cases import each_case
from tests.service.support.browser import Browser, words_of
from tests.service.support.spend import add_spend, spend_line

PAGE = "/settings/budgets"


def _save(browser: Browser, **fields: str) -> int:
    return int(browser.post(PAGE, PAGE, **fields).status_code)


def _budgets(session: Session) -> dict[str | None, Decimal]:
    session.expire_all()
    return {each.route: each.amount_usd for each in session.scalars(select(Budget))}


def test_a_budget_is_added_changed_and_removed(ada: Browser, db_session: Session) -> None:
    assert "No budgets yet" in ada.get(PAGE)
    assert _save(ada, amount="$1,250.00") == 303
    assert _save(ada, amount="80", route=" search ") == 303
    assert _budgets(db_session) == {None: 1250, "search": 80}
    assert _save(ada, amount="90", route="search") == 303  # there is one for the route
    ids = {each.route: each.id for each in db_session.scalars(select(Budget))}
    assert ada.post(PAGE, f"{PAGE}/{ids[None]}", amount="2000").status_code == 303
    assert _budgets(db_session) == {None: 2000, "search": 90}
    assert ada.post(PAGE, f"{PAGE}/{ids['search']}/remove").status_code == 303
    assert _budgets(db_session) == {None: 2000}
    assert "Saved." in ada.get(f"{PAGE}?saved=")


@each_case("amount", ["", "0", "-5", "NaN", "Infinity", "1e30", "ten", "0.001"])
def test_an_amount_that_is_none_is_rejected(ada: Browser, db_session: Session, amount: str) -> None:
    answer = ada.post(PAGE, PAGE, amount=amount)
    assert answer.status_code == 422
    assert "Enter an amount in dollars" in answer.get_data(as_text=True)
    assert _budgets(db_session) == {}


def test_there_is_a_limit(
    ada: Browser, db_session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "MAX_BUDGETS", 1)
    assert _save(ada, amount="5") == 303
    assert _save(ada, amount="5", route="chat") == 422
    assert _save(ada, amount="6") == 303
    assert _budgets(db_session) == {None: 6}


def test_the_page_shows_what_is_spent_and_suggests_routes(
    ada: Browser, db_session: Session
) -> None:
    account_id = db_session.scalars(select(Account.id)).one()
    today = utc_now().date()
    add_spend(db_session, account_id, spend_line(today, "30"), spend_line(today, "3", route="bot"))
    _save(ada, amount="40")
    _save(ada, amount="20", route="chat")
    page = ada.get(PAGE)
    shown = words_of(page)
    assert "Whole account $33.00 (82.5%)" in shown
    assert "chat $30.00 (150%) Over budget" in shown
    assert "After a week of calls" in shown
    assert 'aria-label="Share of the budget that is spent: 82.5%"><rect width="82.5"' in page
    assert '<option value="chat"></option><option value="bot"></option>' in page
