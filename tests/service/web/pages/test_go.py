"""/go: pages, routes, models and findings by a part of their names."""

from sqlalchemy.orm import Session

from tests.service.support.browser import Browser
from tests.service.support.findings import add_account_finding
from tests.service.support.spend import add_spend, spend_line


def test_it_lists_pages_and_what_an_account_has(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    names = ("Budgeting <b>", "search", "100%")
    add_spend(db_session, ada.account_id, *(spend_line(route=each) for each in names))
    finding = add_account_finding(db_session, ada.account_id, route="budgeting")
    add_spend(db_session, eve.account_id, spend_line(route="budget of another"))
    page = ada.get("/go?q=budget")
    assert '<a href="/settings/budgets" data-kind="Page">Budgets</a>' in page
    route = '<a href="/route?route=Budgeting+%3Cb%3E" data-kind="Route">Budgeting &lt;b&gt;</a>'
    assert route in page
    assert f'<a href="/findings/{finding.id}" data-kind="Finding">' in page
    assert "search" not in page.partition('id="results"')[2].partition("</ul>")[0]
    assert "of another" not in page
    assert "route=100%25" in ada.get("/go?q=%25")
    assert "Nothing has this name." in ada.get("/go?q=%00xyzzy")
    assert '<a href="/dashboard" data-kind="Page">Overview</a>' in ada.get("/go")
