"""Tables of pages that sort what they have read: Compare, Imports and the settings."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from sqlalchemy.orm import Session

from service.models.watching.budgets import save_budget
from tests.service.support.browser import Browser
from tests.service.support.scenes import Sessions
from tests.service.support.spend import FIRST, add_spend, spend_line
from tests.service.web.pages.scenes import add_run

PERIODS = "before_from=2026-02-01&before_to=2026-02-28&from=2026-03-01&to=2026-03-28"


def _first_cells(page: str, name: str) -> list[str]:
    table = page[page.index(f'id="{name}"') :].partition("</section>")[0]
    cells = re.findall(r"<tr><t[dh][^>]*>(.*?)</t[dh]>", re.sub(r">\s+<", "><", table))
    unranked = [re.sub(r'<span class="rank">\d+</span>', "", each) for each in cells]
    return [unescape(re.sub("<[^>]+>", "", each)) for each in unranked]


@pytest.mark.parametrize(
    ("state", "routes"),
    [
        ("", ["search", "chat", "Agent"]),
        ("sort-routes=name", ["Agent", "chat", "search"]),
        ("sort-routes=-name", ["search", "chat", "Agent"]),
        ("sort-routes=after", ["search", "chat", "Agent"]),
        ("sort-routes=-change", ["search", "Agent", "chat"]),
        ("sort-routes=percent", ["chat", "search", "Agent"]),  # a new one has none
        ("sort-routes=nonsense&sort-models=name", ["search", "chat", "Agent"]),
    ],
)
def test_a_comparison_is_sorted_by_its_url_and_each_table_alone(
    ada: Browser, db_session: Session, state: str, routes: list[str]
) -> None:
    february = date(2026, 2, 1)
    lines = [
        *(spend_line(february, "10"), spend_line(february, "50", route="search")),
        *(spend_line(FIRST, "15"), spend_line(FIRST, "30", route="search")),
        spend_line(FIRST, "2", route="Agent"),
    ]
    add_spend(db_session, ada.account_id, *lines)
    page = ada.get(f"/compare?{PERIODS}&{state}")
    assert _first_cells(page, "routes")[1:] == routes
    models = page[page.index('id="models"') :].partition("</thead>")[0]
    kept = state if "sort-routes" in state and "nonsense" not in state else ""
    assert (f"&amp;{kept}" if kept else PERIODS.replace("&", "&amp;")) in models
    assert ('aria-sort="ascending"' in models) == ("sort-models=name" in state)
    assert 'data-hx-target="#models"' in models


def test_imports_of_each_day_and_budgets_are_sorted(
    ada: Browser, sessions: Sessions, db_session: Session
) -> None:
    at = datetime(2026, 3, 1, 12, tzinfo=UTC)
    for hour, (label, spend) in enumerate((("b", 3), ("a", 9), ("c", 1))):
        values: dict[str, Any] = {"label": label, "total_spend_usd": Decimal(spend), "records": 5}
        add_run(sessions, ada.account_id, created_at=at.replace(hour=hour), **values)
    assert _first_cells(ada.get("/imports"), "imports")[1:] == ["c", "a", "b"]
    page = ada.get("/imports?source=upload&sort-imports=spend")
    assert _first_cells(page, "imports")[1:] == ["a", "b", "c"]
    assert "/imports?source=upload&amp;sort-imports=-spend" in page
    assert '<rect width="100.0" height="8"/>' in page
    for route, amount in ((None, 5), ("search", 9), ("agent", 7)):
        save_budget(db_session, ada.account_id, route, Decimal(amount))
    db_session.commit()
    page = ada.get("/settings/budgets?sort-budgets=amount")
    assert _first_cells(page, "budgets")[1:] == ["search", "agent", "Whole account"]
    page = ada.get("/settings/sessions?sort-sessions=-last")
    assert re.search(r'aria-sort="ascending"><a[^>]*>Last seen', page)
