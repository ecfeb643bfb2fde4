"""/spend and its downloads."""

import csv
import io
import re
import zipfile
from datetime import date, timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from sqlalchemy import Engine, event, update
from sqlalchemy.orm import Session

from service.errors import InvalidRequestError
from service.models import Account, CallFile
from service.models.calls.series_colors import add_slots, find_slots
from service.reports.workbook import spool_workbook
from tests.service.support.browser import Browser
from tests.service.support.spend import FIRST, add_month, add_spend, spend_line, today

MARCH = "from=2026-03-01&to=2026-03-31"


def _rows(page: str) -> list[list[str]]:
    """The cells of the table's rows, as text."""
    table = page[page.index('id="by-group"') :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    body = re.sub('<span class="rank">[0-9]+</span>', "", body)
    body = re.sub('<svg class="incell".*?aria-label="(.*?)".*?</svg>', r"\1", body)
    return [
        [unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall("<td.*?>(.*?)</td>", row)]
        for row in re.findall("<tr>(.*?)</tr>", body, re.DOTALL)
    ]


def _chart(page: str) -> str:
    return page[page.index('<figure class="columns"') : page.index("</figure>")]


def test_a_new_account_sees_how_to_send_calls(ada: Browser) -> None:
    page = ada.get("/spend")
    assert "No calls yet" in page
    assert "/api/v1/ingest" in page
    assert "tallystick.init()" in page
    assert '<a href="/spend" aria-current="page">Spend</a>' in page
    assert "<figure" not in page
    # Impossible labels are no filters.
    assert "No calls yet" in ada.get(f"/spend?route=%00&model={'x' * 201}")


def test_the_table_has_spend_share_change_calls_and_tokens_by_group(
    ada: Browser, db_session: Session
) -> None:
    february = date(2026, 2, 28)
    lines = [spend_line(cost="30"), spend_line(cost="10", route="search"), spend_line(FIRST, "20")]
    before = [spend_line(february, "40"), spend_line(february, "5", route="gone")]
    add_spend(db_session, ada.account_id, *lines, *before)
    page = ada.get(f"/spend?{MARCH}")
    assert _rows(page) == [
        ["chat", "$50.00", "83.3%", "+25.0%", "20", "2.00K", "200"],
        ["search", "$10.00", "16.7%", "New", "10", "1.00K", "100"],
        ["gone", "$0.00", "0%", "−100%", "0", "0", "0"],
    ]
    assert "+33.3% from $45.00" in page
    assert "Change compares with Jan 29, 2026 to Feb 28, 2026." in page


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ("", ["chat", "search", "agent"]),
        ("sort=-spend", ["agent", "search", "chat"]),
        ("sort=name", ["agent", "chat", "search"]),
        ("sort=-name", ["search", "chat", "agent"]),
        ("sort=calls", ["agent", "search", "chat"]),
        ("sort=before", ["chat", "agent", "search"]),
        ("sort=share", ["chat", "search", "agent"]),
        ("q=RCH", ["search"]),
        ("q=%25", []),
        ("q=a&sort=name&hide=calls,name", ["agent", "chat", "search"]),
    ],
)
def test_the_table_is_sorted_and_searched_by_its_url(
    ada: Browser, db_session: Session, state: str, names: list[str]
) -> None:
    lines = [
        spend_line(cost="50", route="chat", calls=1),
        spend_line(cost="10", route="search", calls=2),
        spend_line(cost="1", route="agent", calls=3),
        spend_line(date(2026, 2, 28), "40", route="search"),
    ]
    add_spend(db_session, ada.account_id, *lines)
    page = ada.get(f"/spend?{MARCH}&{state}")
    rows = _rows(page)
    assert [row[0] for row in rows if len(row) > 1] == names
    assert names or rows == [["No route has this in its name."]]
    assert "$61.00 in 31 days" in page
    hidden = "hide=calls" in state
    assert ('data-label="Calls"' in page) == (bool(names) and not hidden)


def test_a_tables_links_turn_its_order_around_and_keep_the_rest(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line())
    page = ada.get(f"/spend?{MARCH}&sort=calls&q=chat&hide=input")
    kept = f"{MARCH.replace('&', '&amp;')}&amp;q=chat&amp;hide=input"
    assert f'href="/spend?{MARCH.replace("&", "&amp;")}&amp;q=chat&amp;hide=input&amp;' in page
    assert f'<a href="/spend?{kept}&amp;sort=-calls"' in page
    assert f'<a href="/spend?{kept}" data-hx-get' in page  # by spend, the default
    assert '<th scope="col" data-column="calls" class="num" aria-sort="descending">' in page
    chosen = ada.get(f"/spend?{MARCH}&choose=1&column=calls&column=share")
    heads = re.findall('<th scope="col".*?</th>', chosen[chosen.index('id="by-group"') :])
    assert [re.sub("<[^>]+>", "", each).split()[0] for each in heads[:4]] == [
        *("Route", "Spend", "Share", "Calls"),
    ]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("period=month", "This month"),
        ("period=last-month", "Last month"),
        ("days=1", "Today"),
        ("days=7", "7d"),
        ("period=nonsense", "30d"),
    ],
)
def test_ranges_are_chosen_by_days_and_by_the_calendar(
    ada: Browser, db_session: Session, query: str, words: str
) -> None:
    add_month(db_session, ada.account_id, today(), days=70)
    page = ada.get(f"/spend?{query}")
    assert f'aria-current="true">{words}</a>' in page
    days = {
        "This month": today().day,
        "Last month": (today().replace(day=1) - timedelta(days=1)).day,
        "Today": 1,
        "7d": 7,
        "30d": 30,
    }[words]
    assert f" in {days} day{'s' if days > 1 else ''}; peak" in page


def test_a_view_is_saved_shown_replaced_and_removed(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line())
    page = f"/spend?{MARCH}"
    for query in ("days=7", f"{MARCH}&sort=calls"):
        answer = ada.act(page, "/views", page="/spend", name="Monthly <b>", query=query)
        assert answer.headers["Location"] == f"/spend?{query}"
    shown = ada.get(page)
    href = f"/spend?{MARCH}&sort=calls".replace("&", "&amp;")
    assert f'<a href="{href}"><bdi>Monthly &lt;b&gt;</bdi></a>' in shown
    [view_id] = re.findall('action="/views/([0-9a-f]+)/remove"', shown)
    assert eve.act("/spend", f"/views/{view_id}/remove").status_code == 404
    assert ada.act(page, f"/views/{view_id}/remove").status_code == 303
    assert "Monthly" not in ada.get(page)
    for wrong in ({"page": "//evil.example"}, {"name": " "}, {"name": "x" * 61}):
        fields = {"page": "/spend", "name": "x", "query": "", **wrong}
        assert ada.act(page, "/views", **fields).status_code == 422


def test_a_series_keeps_its_color_on_other_ranges_and_beside_others(
    ada: Browser, db_session: Session
) -> None:
    """As the cheapest of three, and later alone."""
    lines = [spend_line(FIRST, str(9 - at), route=f"route-{at}") for at in range(3)]
    add_spend(db_session, ada.account_id, *lines, spend_line(today(), route="route-2"))

    def color(page: str) -> str:
        legend = _chart(page)[_chart(page).index('class="legend"') :]
        found = re.search(r'<path class="(s[0-7])"[^>]*></svg> <a [^>]*><bdi>route-2<', legend)
        assert found is not None, legend
        return found[1]

    assert color(ada.get(f"/spend?{MARCH}")) == color(ada.get("/spend?days=7")) == "s2"


def test_the_chart_compares_with_the_period_before_where_it_is_covered(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, today(), days=20)
    assert 'class="before"' in _chart(ada.get("/spend?days=7"))
    assert 'class="before"' not in _chart(ada.get("/spend?days=30"))


@pytest.mark.parametrize(
    ("days", "spend"), [("", "$292.50"), ("days=7", "$68.25"), ("days=90", "$390.00")]
)
def test_a_period_ends_today(ada: Browser, db_session: Session, days: str, spend: str) -> None:
    add_month(db_session, ada.account_id, today(), days=40)
    assert f">{spend}</span></dd>" in ada.get(f"/spend?{days}")


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ("route", ["search", "chat"]),
        ("model", ["claude-sonnet-4-5", "gpt-5.5", "gpt-5.5-mini"]),
        ("provider", ["anthropic", "openai"]),
        ("environment", ["production"]),
        ("nonsense", ["search", "chat"]),
    ],
)
def test_each_grouping_has_its_rows(
    ada: Browser, db_session: Session, group: str, names: list[str]
) -> None:
    add_month(db_session, ada.account_id, today(), days=2)
    page = ada.get(f"/spend?group={group}")
    assert [row[0] for row in _rows(page)] == names
    assert all(f"<bdi>{name}</bdi>" in _chart(page) for name in names)


def test_a_row_is_a_filter_and_its_page_groups_by_the_next_key(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, today())
    assert '<a href="/route?route=chat&amp;days=7">' in ada.get("/spend?days=7")
    link = "/spend?days=7&amp;provider=openai"
    assert f'<a href="{link}">' in ada.get("/spend?days=7&group=provider")
    page = ada.get("/spend?days=7&group=model&route=chat")
    assert [row[0] for row in _rows(page)] == ["gpt-5.5", "gpt-5.5-mini"]
    assert '<a href="/spend?days=7" aria-label="Remove the filter for this route">' in page
    assert '<input type="hidden" name="route" value="chat">' in page
    assert "No calls match these filters" in ada.get("/spend?route=chat&provider=anthropic")


def test_calls_without_a_route_can_be_filtered(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(today(), route=""), spend_line(today(), "9"))
    page = ada.get("/spend")
    assert [row[0] for row in _rows(page)] == ["chat", "No tag or endpoint"]
    assert ">$1.50</span></dd>" in ada.get("/spend?route=&group=model")


def test_the_chart_has_a_column_per_day_with_its_values_and_one_series_for_the_others(
    ada: Browser, db_session: Session
) -> None:
    lines = [spend_line(FIRST, str(12 - at), route=f"route-{at}") for at in range(10)]
    add_spend(db_session, ada.account_id, *lines, spend_line(FIRST + timedelta(days=2), "1.5"))
    page = ada.get("/spend?from=2026-03-01&to=2026-03-07")
    chart = _chart(page)
    assert len(re.findall("<li data-from=", chart)) == 7
    assert '<b>Mar 1, 2026</b> <span class="sum">$75.00</span>' in chart
    assert "<bdi>3 other routes</bdi>" in chart
    assert "$76.50 in 7 days; peak: $75.00 on Mar 1, 2026 (UTC)." in chart
    assert re.findall("<li>(Mar [0-9]+)</li>", chart) == ["Mar 1", "Mar 3", "Mar 5", "Mar 7"]
    assert '<th scope="col">Day (UTC)</th>' in chart
    weekly = _chart(ada.get("/spend?from=2026-01-01&to=2026-03-31"))
    assert "Spend by week" in weekly
    assert "Skip the chart's weeks" in weekly
    assert '<th scope="col">Week (UTC)</th>' in weekly


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("from=2026-03-02&to=2026-03-01", "The first day must not be after the last."),
        ("from=2026-03-02", "Enter both days, from 2000 to 2100."),
        ("from=1999-12-31&to=2000-01-02", "Enter both days, from 2000 to 2100."),
        ("from=2024-01-01&to=2026-03-01", "Choose at most 400 days."),
    ],
)
def test_an_invalid_range_is_a_problem_above_the_default_period(
    ada: Browser, db_session: Session, query: str, problem: str
) -> None:
    add_month(db_session, ada.account_id, today(), days=2)
    page = ada.get(f"/spend?{query}")
    assert problem in page
    assert ">$19.50</span></dd>" in page


def test_a_period_before_the_first_call_leads_to_the_latest_ones(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line())
    page = ada.get("/spend?days=7")
    assert "Your latest calls are from Mar 1, 2026." in page
    assert 'href="/spend?from=2026-01-31&amp;to=2026-03-01"' in page


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("", [["chat"], ["search"]]),
        ("&daily=1", [["2026-03-01", "chat"], ["2026-03-01", "search"], ["2026-03-02", "chat"]]),
        ("&group=model&route=search", [["gpt-5.5"]]),
        ("&q=RCH", [["search"]]),
        ("&q=RCH&daily=1", [["2026-03-01", "search"]]),
    ],
)
def test_csv_has_what_the_page_shows(
    ada: Browser, db_session: Session, query: str, rows: list[list[str]]
) -> None:
    second = FIRST + timedelta(days=1)
    lines = [spend_line(), spend_line(second), spend_line(route="search"), spend_line(today())]
    add_spend(db_session, ada.account_id, *lines)
    with ada.client.get(f"/spend.csv?{MARCH}{query}") as response:
        table = response.data.decode()
    assert (response.status_code, response.mimetype) == (200, "text/csv")
    assert table.startswith("\ufeff")
    _, *found = csv.reader(io.StringIO(table, newline=""))
    assert [row[:-8] for row in found] == rows


def test_the_name_of_a_file_says_whose_its_days_are(ada: Browser, db_session: Session) -> None:
    """Those without a column of days have a range of days, too; FOCUS has UTC days."""
    add_spend(db_session, ada.account_id, spend_line())
    db_session.get_one(Account, ada.account_id).time_zone = "America/Los_Angeles"
    db_session.commit()
    # Its calls are not counted by that zone yet.
    names = [("spend.csv", "spend-utc.csv")]
    _check_names(ada, names)
    assert "1.4</a> (UTC)" not in ada.get(f"/spend?{MARCH}")
    db_session.execute(update(CallFile).values(priced_with="1|2|America/Los_Angeles"))
    db_session.commit()
    zone = "america-los-angeles"
    names = [(f"spend.{kind}", f"spend-{zone}.{kind}") for kind in ("csv", "xlsx")]
    others = [("spend.focus.csv", "spend-focus-utc.csv"), ("findings.csv", "findings-utc.csv")]
    _check_names(ada, names + others)
    assert "1.4</a> (UTC)" in ada.get(f"/spend?{MARCH}")


def _check_names(browser: Browser, names: list[tuple[str, str]]) -> None:
    for path, name in names:
        with browser.client.get(f"/{path}?{MARCH}") as response:
            found = response.headers["Content-Disposition"]
        assert found == f"attachment; filename=tallystick-{name}"


def test_a_workbook_has_days_and_numbers_and_no_formulas(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(cost="0.123456789", route="=SUM(A1)"))
    with ada.client.get(f"/spend.xlsx?{MARCH}&daily=1") as response:
        book = zipfile.ZipFile(io.BytesIO(response.data))
    disposition = response.headers["Content-Disposition"]
    assert (response.status_code, disposition) == (
        200,
        "attachment; filename=tallystick-spend-utc.xlsx",
    )
    sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "<t>=SUM(A1)</t>" in sheet
    values = re.findall(r'<c r="[A-J]2"(?: s="[0-9]")?><v>([^<]+)</v>', sheet)
    assert [float(value) for value in values] == [
        (FIRST - date(1899, 12, 30)).days,
        *(10, 0, 1_000, 100, 50, 5, 0.123456789, 0.123456789),
    ]


def test_a_workbook_without_room_for_all_rows_is_refused() -> None:
    lines = [(route, 1, Decimal(1)) for route in "abc"]
    spool_workbook("Spend", ("route", "calls", "cost_usd"), lines, most=3).close()
    with pytest.raises(InvalidRequestError, match="A spreadsheet has room for 1,048,575 rows"):
        spool_workbook("Spend", ("route", "calls", "cost_usd"), lines, most=2)


def test_the_page_reads_the_lines_of_spend_once(
    ada: Browser, db_session: Session, statements: list[str]
) -> None:
    """The chart, the period before and its marks read the summaries, which are smaller."""
    add_month(db_session, ada.account_id, today(), days=3)
    ada.get("/spend?days=7")
    for table, times in (("daily_spend", 1), ("spend_groups", 3)):
        assert len([text for text in statements if f"FROM {table}" in text]) == times


@pytest.mark.parametrize(
    ("path", "most"),
    [("/dashboard", 16), ("/spend", 14), ("/route?route=chat", 13), ("/plan-usage", 9)],
)
def test_a_page_takes_few_queries(
    ada: Browser, db_session: Session, statements: list[str], path: str, most: int
) -> None:
    add_month(db_session, ada.account_id, today())
    ada.get(path)  # which stores the colors of the series
    statements.clear()
    ada.get(path)
    assert len(statements) <= most
    # The chart, the comparison, the month and the budget read the days of all calls together.
    assert sum("FROM spend_days" in each and "count(" in each for each in statements) <= 1


def test_colors_are_stored_in_one_order_whichever_page_comes_first(
    engine: Engine, ada: Browser, db_session: Session
) -> None:
    """Two pages that lock the same rows in different orders could wait for each other forever."""
    stored: list[Any] = []

    def see(_c: object, _cursor: object, statement: str, given: Any, *_more: object) -> None:
        if statement.startswith("INSERT INTO series_colors"):
            stored.append(given)

    event.listen(engine, "before_cursor_execute", see)
    add_slots(db_session, ada.account_id, "route", ["search", "agent", "chat"])
    event.remove(engine, "before_cursor_execute", see)
    assert [value for name, value in stored[0].items() if name.startswith("name")] == [
        *("agent", "chat", "search"),
    ]
    known = find_slots(db_session, ada.account_id, "route", ["search", "agent", "chat"])
    assert known == {"search": 0, "agent": 1, "chat": 2}


def test_a_deploy_is_noted_on_a_day_shown_on_charts_and_removed(
    ada: Browser, eve: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, today())
    day = today() - timedelta(days=2)
    for wrong in ({"day": "", "words": "x"}, {"day": str(day), "words": " "}):
        assert ada.post("/spend", "/spend/marks", **wrong).status_code == 422
    assert ada.post("/spend", "/spend/marks", day=str(day), words="Deploy <1>").status_code == 303
    page = ada.get("/spend")
    assert "<em>Deploy &lt;1&gt;</em>" in page
    assert '<i class="change"></i> Change' in page
    assert "<em>Deploy &lt;1&gt;</em>" in ada.get("/dashboard")
    [remove] = re.findall('action="(/spend/marks/[^"]+/remove)"', page)
    assert eve.act("/spend", remove).status_code == 404
    assert ada.post("/spend", remove).status_code == 303
    assert "Deploy" not in ada.get("/dashboard")
