"""/dashboard of an account with calls: spend, whether it is normal, findings and savings."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from detectors.wording.figures import short_day
from service.models import Account, Audit, CallFile, FindingSaving
from service.models.base import utc_now
from service.models.watching.budgets import save_budget
from service.models.watching.watches import UnusualDay
from tests.service.support.browser import Browser, words_of
from tests.service.support.findings import add_account_finding
from tests.service.support.scenes import Sessions
from tests.service.support.spend import add_month, add_spend, spend_line
from tests.service.web.pages.scenes import add_finding, add_run

# Late enough in the month for days of it that are over, whenever the tests run.
TODAY = utc_now().date().replace(day=20)
YESTERDAY = TODAY - timedelta(days=1)
MONTH = TODAY.replace(day=1)
LAST_MONTH = (MONTH - timedelta(days=1)).replace(day=1)


@pytest.fixture(autouse=True)
def on_the_twentieth() -> Iterator[None]:
    with time_machine.travel(datetime.combine(TODAY, time(12), UTC)):
        yield


def _tile(page: str, name: str) -> str:
    """The words of one figure."""
    found = re.search(rf"<dt>{name}</dt>(.*?)</div>", page, re.DOTALL)
    assert found is not None, page
    return words_of(found[1])


def _first(page: str) -> str:
    """The words about what to fix first."""
    found = re.search(r'<div class="start-here">(.*?)<form', page, re.DOTALL)
    assert found is not None, page
    return words_of(found[1])


def _month(first: date) -> str:
    return f"{first:%b} {first.year}"


def _add_days(session: Session, account_id: str, days: tuple[date, date], cost: str) -> None:
    """Add a day's spend to each day of a range."""
    count = (days[1] - days[0]).days + 1
    lines = [spend_line(days[0] + timedelta(days=at), cost) for at in range(count)]
    add_spend(session, account_id, *lines)


def _add_audit(session: Session, account_id: str, days_ago: int = 0, **more: Any) -> str:
    values = {
        "source": "account",
        "status": "done",
        "blob_key": "",
        "window_days": 30,
        "records": 900,
        "projection": "good",
        "created_at": utc_now() - timedelta(days=days_ago),
        "verified_savings_usd": Decimal(200),
        "estimated_savings_usd": Decimal(1_000),
        "estimated_savings_low_usd": Decimal(700),
        "estimated_savings_high_usd": Decimal(1_500),
        "conditional_savings_high_usd": Decimal(300),
        **more,
    }
    audit = Audit(account_id=account_id, **values)
    session.add(audit)
    session.commit()
    return audit.id


# What did we spend this month


def test_it_leads_with_this_month_and_the_same_days_of_the_last(
    ada: Browser, db_session: Session
) -> None:
    _add_days(db_session, ada.account_id, (LAST_MONTH, MONTH - timedelta(days=1)), "10")
    _add_days(db_session, ada.account_id, (MONTH, TODAY), "12")
    page = ada.get("/dashboard")
    tile = _tile(page, f"Spent in {_month(MONTH)}")
    assert tile.startswith(f"${12 * TODAY.day:,.2f}")
    before = 10 * min(YESTERDAY.day, (MONTH - LAST_MONTH).days)
    assert f"from ${before:,.2f}" in tile
    assert f"from ${10 * (MONTH - LAST_MONTH).days:,.2f} in" in _tile(
        page, f"Forecast for {_month(MONTH)}"
    )


def test_without_a_full_last_month_nothing_is_compared(ada: Browser, db_session: Session) -> None:
    add_spend(db_session, ada.account_id, spend_line(TODAY, "12"))
    page = ada.get("/dashboard")
    spent = _tile(page, f"Spent in {_month(MONTH)}")
    gap = f"No comparison: data starts {short_day(TODAY)}"
    assert spent == f"$12.00 Not enough history yet {gap}"
    assert _tile(page, f"Forecast for {_month(MONTH)}") == "– After a week of calls"


def test_a_range_without_calls_leads_to_the_latest(ada: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, date(2026, 3, 31))
    page = ada.get("/dashboard")
    assert "No calls in this period" in page
    assert '<a href="/dashboard?from=2026-03-02&amp;to=2026-03-31">' in page
    assert "<figure" in ada.get("/dashboard?from=2026-03-02&to=2026-03-31")


# Is that normal


@pytest.mark.parametrize(
    ("cost", "verdict"),
    [("10", "As expected"), ("14", "Higher than expected"), ("6", "Lower than expected")],
)
def test_it_judges_the_month_by_the_weeks_before(
    ada: Browser, db_session: Session, cost: str, verdict: str
) -> None:
    _add_days(
        db_session, ada.account_id, (MONTH - timedelta(days=56), MONTH - timedelta(days=1)), "10"
    )
    _add_days(db_session, ada.account_id, (MONTH, TODAY), cost)
    assert verdict in _tile(ada.get("/dashboard"), f"Spent in {_month(MONTH)}")


def test_unusual_days_are_marked_with_their_reason_and_lead_to_their_spend(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY)
    series = [{"scope": "route", "name": "<b>", "spend_usd": 16.85, "expected_usd": 0.8}]
    for day in (TODAY, MONTH - timedelta(days=1)):
        values = {"account_id": ada.account_id, "day": day, "series": series}
        db_session.execute(insert(UnusualDay).values(values))
    db_session.commit()
    page = ada.get("/dashboard")
    assert page.count('<i class="mark"></i><a') == 2
    assert '<i class="mark"></i> Unusual day' in page
    assert "<em>Unusual: &lt;b&gt; $16.85, usually $0.80</em>" in page
    link = f'<a href="/dashboard?from={TODAY}&amp;to={TODAY}" aria-label="'
    assert ". Unusual: &lt;b&gt;" in page[page.index(link) :].partition(">")[0]
    assert "Unusual: " not in ada.get("/dashboard?route=chat")


def test_budgets_are_shown_where_they_need_attention(ada: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, TODAY)
    assert _tile(ada.get("/dashboard"), "Budget") == "– Set a budget"
    for route, amount in ((None, "1000000"), ("chat", "1"), ("search", "1000000")):
        save_budget(db_session, ada.account_id, route, Decimal(amount))
    db_session.commit()
    answer = _tile(ada.get("/dashboard"), "Budget").replace(" ,", ",")
    assert re.search(r"[0-9,.]+% Over budget \$[0-9.,]+ of \$1.00, chat and 1 more", answer)
    assert "search" in _tile(ada.get("/dashboard?route=search"), "Budget")
    assert _tile(ada.get("/dashboard?model=gpt-5.5"), "Budget") == "– Set a budget"


# What should we fix first


def test_findings_can_be_changed_from_the_dashboard_which_keeps_its_state(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY)
    _add_audit(db_session, ada.account_id)
    most = add_account_finding(db_session, ada.account_id, monthly_usd=Decimal(90))
    add_account_finding(
        db_session, ada.account_id, monthly_usd=Decimal(40), confidence="CONDITIONAL"
    )
    page = ada.get("/dashboard?days=90&route=chat")
    first = "Cache the repeated start of chat prompts gpt-5.5 $90 /month, estimated"
    assert first in _first(page)
    assert "up to $40 /month" in words_of(page)
    fields = {"finding": most.id, "dashboard": "days=90&route=chat", "reason": "Done"}
    answer = ada.act("/dashboard", "/findings", action="fix", **fields)
    assert answer.headers["Location"] == "/dashboard?days=90&route=chat&changed=1#findings"
    page = ada.get("/dashboard?days=90&route=chat&changed=1")
    assert "We changed 1 finding." in page
    assert "up to $40 /month" in _first(page)


def test_before_the_first_audit_of_the_account_its_imports_have_findings(
    ada: Browser, db_session: Session, sessions: Sessions
) -> None:
    add_spend(db_session, ada.account_id, spend_line(TODAY))
    audit_id = add_run(sessions, ada.account_id)
    add_finding(sessions, audit_id, 1, 300)
    page = ada.get("/dashboard")
    assert f'href="/audits/{audit_id}?finding=d1-001"' in page
    assert "Oversized model on support-bot , so far" in _first(page)
    assert "Findings of your imports" in page
    assert "$300 in one import" in words_of(page)
    _add_audit(db_session, ada.account_id)
    assert "Findings of your imports" not in ada.get("/dashboard")


def test_an_audit_has_savings_and_perhaps_no_open_findings(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY)
    page = words_of(ada.get("/dashboard"))
    assert "We audit your calls ten minutes after the last ones arrive." in page
    assert "We're looking for savings" in page
    assert "Audit all calls" in page
    audit_id = _add_audit(db_session, ada.account_id)
    page = ada.get("/dashboard")
    assert "Nothing: you have no open findings." in words_of(page)
    assert f'href="/audits/{audit_id}"' in page
    assert "Audit again" in page
    # Savings are a range with a part for each confidence.
    assert "You could save $1,200–1,500 a month" in words_of(page)
    parts = re.findall('<li tabindex="-1"><i class="tone (.*?)</li>', page, re.DOTALL)
    assert [words_of(f'<i class="{each}').partition("<")[0] for each in parts] == [
        "$200 verified Calculated from billed token counts.",
        "$1,000 estimated Based on the assumption stated in the fix.",
        "up to $300 conditional If the cheaper model passes your own evaluation.",
    ]
    widths = re.findall(r'<rect class="bar-part \w+" x="[0-9.]+" width="([0-9.]+)"', page)
    assert [round(float(each)) for each in widths] == [130, 664, 200]
    # Filters without matches can be cleared.
    page = ada.get("/dashboard?route=none&environment=production")
    assert "No calls match these filters" in page
    assert "No savings by environment" in page
    assert '<a href="/dashboard">Clear filters</a>' in page
    # A bad range is explained.
    page = ada.get("/dashboard?from=2026-03-02&to=2026-03-01")
    assert "The first day must not be after the last." in page
    # A form leads nowhere but to the dashboard.
    state = "https://evil.example/?days=7&next=//evil.example"
    answer = ada.act("/dashboard", "/findings", action="fix", dashboard=state)
    assert answer.headers["Location"].startswith("/dashboard?")
    assert "evil" not in answer.headers["Location"]


# What did we save, and what could we


def test_savings_are_compared_with_those_of_the_period_before(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY)
    _add_audit(db_session, ada.account_id, 40, verified_savings_usd=Decimal(100))
    _add_audit(db_session, ada.account_id)
    since = f"{utc_now() - timedelta(days=40):%b %-d, %Y}"
    words = f"Avoidable spend since {since}: verified +100%, estimated unchanged"
    assert words in words_of(ada.get("/dashboard"))


def test_parts_without_savings_are_not_shown(ada: Browser, db_session: Session) -> None:
    add_month(db_session, ada.account_id, TODAY)
    nothing: dict[str, Any] = dict.fromkeys(
        ("verified_savings_usd", "conditional_savings_high_usd"), Decimal(0)
    )
    _add_audit(db_session, ada.account_id, **nothing)
    page = words_of(ada.get("/dashboard"))
    assert "You could save $1,000 a month" in page
    assert "verified Calculated" not in page
    _add_audit(
        db_session,
        ada.account_id,
        -1,
        **nothing,
        estimated_savings_usd=Decimal(0),
        projected_spend_usd=Decimal(690),
    )
    assert "Nothing to save found in $690 a month" in words_of(ada.get("/dashboard"))


def test_figures_that_are_not_projected_are_those_of_the_period(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY, days=2)
    _add_audit(db_session, ada.account_id, projection="none")
    assert "You could save $1,200–1,500 in this period" in words_of(ada.get("/dashboard"))


def test_realized_savings_are_those_of_the_month_and_since_the_fixes(
    ada: Browser, db_session: Session
) -> None:
    """10 calls a day, each of which cost $0.50 too much until the last month ended."""
    first = MONTH - timedelta(days=14)
    _add_days(db_session, ada.account_id, (first, YESTERDAY), "10")
    fixed_at = datetime(MONTH.year, MONTH.month, 1, tzinfo=UTC) - timedelta(seconds=1)
    finding = add_account_finding(db_session, ada.account_id, state="fixed", fixed_at=fixed_at)
    days = [first + timedelta(days=at) for at in range(14)]
    row = {"account_finding_id": finding.id, "calls": 10, "saving_usd": Decimal(5)}
    db_session.execute(insert(FindingSaving), [{**row, "day": day} for day in days])
    db_session.commit()
    tile = _tile(ada.get("/dashboard"), f"Saved in {_month(MONTH)}")
    saved = 5 * YESTERDAY.day
    assert tile == f"${saved:,.2f} ${saved:,.2f} in total, 1 fix"
    other = _tile(ada.get("/dashboard?route=other"), f"Saved in {_month(MONTH)}")
    assert other == "– No finding fixed yet"


# The chart and the routes


def test_a_route_filters_everything_and_its_row_leads_to_its_page(
    ada: Browser, db_session: Session
) -> None:
    add_month(db_session, ada.account_id, TODAY)
    _add_audit(db_session, ada.account_id)
    add_account_finding(db_session, ada.account_id, monthly_usd=Decimal(90))
    add_account_finding(db_session, ada.account_id, monthly_usd=Decimal(30), route="search")
    page = ada.get("/dashboard?days=7")
    table = page[page.index('id="routes"') :]
    assert '<a href="/route?route=chat&amp;days=7">' in table
    rows = re.findall("<tr><td>(.*?)</tr>", table, re.DOTALL)
    assert [words_of(row) for row in rows[:2]] == [
        "search $49.00 No change $30",
        "chat $19.25 No change $90",
    ]
    assert re.findall('class="incell".*?aria-label="(.*?)"', table) == ["71.8%", "28.2%"]
    filtered = ada.get("/dashboard?days=7&group=model&route=chat")
    assert "You could save up to $90 a month" in words_of(filtered)
    assert "start of search prompts" not in words_of(filtered)
    assert "<bdi>gpt-5.5-mini</bdi>" in filtered[: filtered.index('id="routes"')]
    assert "claude" not in filtered
    assert '<a href="/dashboard?days=7" aria-label="Remove the filter for this route">' in filtered
    assert "<bdi>search</bdi>" in filtered


def test_overlapping_findings_of_a_route_do_not_add_up(ada: Browser, db_session: Session) -> None:
    routes = ("assistant", "batch", "chat")
    add_spend(db_session, ada.account_id, *(spend_line(TODAY, "30", route=each) for each in routes))
    for route, *found in (
        ("assistant", (14, "ESTIMATED"), (14, "CONDITIONAL"), (11, "VERIFIED")),
        ("batch", (9, "ESTIMATED"), (19, "CONDITIONAL")),
        ("chat", (12, "CONDITIONAL")),
    ):
        for at, (usd, confidence) in enumerate(found):
            add_account_finding(
                db_session,
                ada.account_id,
                route=route,
                kind=f"kind {at}",
                monthly_usd=Decimal(usd),
                confidence=confidence,
            )
    page = ada.get("/dashboard")
    table = page[page.index('id="routes"') :]
    cells = re.findall('data-label="Savings/month">(.*?)<', table)
    assert cells == ["$14 or more", "up to $19", "up to $12"]


def test_routes_are_compared_with_the_period_before(ada: Browser, db_session: Session) -> None:
    add_spend(
        db_session,
        ada.account_id,
        spend_line(TODAY, "12"),
        spend_line(TODAY - timedelta(days=6), "3", route="search"),
        spend_line(TODAY, "1", route="agent"),
        spend_line(TODAY - timedelta(days=7), "8"),
        spend_line(TODAY - timedelta(days=13), "4", route="search"),
        spend_line(TODAY - timedelta(days=14), "100"),
    )
    page = ada.get("/dashboard?days=7")
    rows = re.findall("<tr><td>(.*?)</tr>", page[page.index('id="routes"') :], re.DOTALL)
    assert [words_of(row) for row in rows[:3]] == [
        "chat $12.00 +50.0% –",
        "search $3.00 −25.0% –",
        "agent $1.00 New –",
    ]
    earlier = ada.get("/dashboard?days=7&route=search&group=model")
    assert "+50.0%" in words_of(earlier[earlier.index('id="routes"') :])


def test_only_routes_with_calls_in_the_range_are_shown(ada: Browser, db_session: Session) -> None:
    before = TODAY - timedelta(days=7)
    retired = [spend_line(before, "1", route=f"retired-{at}") for at in range(12)]
    used = [spend_line(TODAY, str(12 - at), route=f"used-{at}") for at in range(9)]
    add_spend(db_session, ada.account_id, *retired, *used)
    page = ada.get("/dashboard?days=7")
    assert "retired" not in page
    assert "1 other route<" in page  # of the chart
    assert ">Spend</a>" in page[page.index('id="routes"') :]  # not "All 21"
    ended = ada.get(f"/dashboard?from={before + timedelta(days=1)}&to={TODAY - timedelta(days=1)}")
    assert "No calls in this period" in ended
    assert 'id="routes"' not in ended


@pytest.mark.parametrize("group", ["route", "model", "provider", "environment"])
def test_the_groups_beyond_the_colors_are_one_series(
    ada: Browser, db_session: Session, group: str
) -> None:
    lines = [spend_line(TODAY, str(12 - at), **{group: f"name-{at}"}) for at in range(10)]
    add_spend(db_session, ada.account_id, *lines)
    page = ada.get(f"/dashboard?group={group}")
    legend = page[page.index('class="legend"') :]
    names = re.findall("<bdi>(.*?)</bdi>", legend[: legend.index("</ul>")])
    assert names == [*(f"name-{at}" for at in range(8)), f"2 other {group}s"]
    assert "$75.00 in 30 days" in page


def test_calls_without_a_route_have_the_findings_of_their_model(
    ada: Browser, db_session: Session
) -> None:
    add_spend(db_session, ada.account_id, spend_line(TODAY, "9", route=""))
    _add_audit(db_session, ada.account_id)
    add_account_finding(db_session, ada.account_id, route="gpt-5.5", monthly_usd=Decimal(70))
    page = ada.get("/dashboard")
    assert "No tag or endpoint" in page
    assert words_of(page).count("$70 /month") == 2
    assert "$70" in _first(ada.get("/dashboard?route="))


# What it costs


def test_its_queries_are_as_many_for_any_account(
    ada: Browser, db_session: Session, statements: list[str]
) -> None:
    def count() -> int:
        statements.clear()
        page = ada.get("/dashboard")
        assert ("Berlin time" in page) is (zone != "UTC")
        return sum(each.startswith(("SELECT", "WITH")) for each in statements)

    zone = "UTC"
    add_month(db_session, ada.account_id, TODAY, days=2)
    _add_audit(db_session, ada.account_id)
    few = count()
    for number in range(30):
        add_spend(db_session, ada.account_id, spend_line(TODAY, route=f"route-{number}"))
        add_account_finding(db_session, ada.account_id, route=f"route-{number}")
    # Without findings to list, another query says whether there ever were any.
    assert 0 < count() <= few <= 21
    again = count()  # its routes have colors now
    zone = db_session.get_one(Account, ada.account_id).time_zone = "Europe/Berlin"
    db_session.execute(update(CallFile).values(priced_with=f"1|2|{zone}"))
    db_session.commit()
    # Whose its days are, which calls that aren't kept have others, and the last day in UTC.
    assert count() - again == 3
