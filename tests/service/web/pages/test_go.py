"""/go: pages, routes, models and findings by a part of their names."""

from flask import Flask
from sqlalchemy.orm import Session

from tests.service.support.browser import Browser
from tests.service.support.findings import add_account_finding
from tests.service.support.spend import add_spend, spend_line

# The page itself, those of signed-out visitors, and those that pages lead to with more.
OTHERS = {"/go", "/", "/sign-in", "/deleted", "/route", "/model", "/sign-in/confirm"}
ABOUT = ("/legal/", "/client/")


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
    words = "Cache the repeated start of budgeting prompts"
    assert f'<a href="/findings/{finding.id}" data-kind="Finding">{words}</a>' in page
    assert "search" not in page.partition('id="results"')[2].partition("</ul>")[0]
    assert "of another" not in page
    assert "route=100%25" in ada.get("/go?q=%25")
    assert "Nothing has this name." in ada.get("/go?q=%00xyzzy")
    assert '<a href="/dashboard" data-kind="Page">Overview</a>' in ada.get("/go")


def test_it_lists_every_page_that_needs_nothing_more(app: Flask, ada: Browser) -> None:
    """A page that is read, has no parameters, is no download, and is of this person."""
    page = ada.get("/go")
    for rule in app.url_map.iter_rules():
        is_form = rule.rule.endswith("/add") or "GET" not in (rule.methods or ())
        if rule.arguments or is_form or f'"{rule.rule}"' in page:
            continue
        answer = ada.client.get(rule.rule)
        is_page = answer.status_code == 200 and answer.mimetype == "text/html"
        answer.close()
        assert not is_page or rule.rule in OTHERS or rule.rule.startswith(ABOUT), rule.rule
