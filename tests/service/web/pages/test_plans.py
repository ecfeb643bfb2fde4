"""The page and the API of plan usage: value beside price, groups, windows, and the plans."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

import detectors
from benchmarks.agent_sessions import write_sessions
from detectors.agents import reading, views
from detectors.agents.folders import find_sources
from detectors.agents.ledger import Ledger
from detectors.contract import DailyPlanUsage, UsageRecordV2
from detectors.formats.adapters.calls import Call, record_of
from detectors.prices.book import PriceBook
from detectors.report.account import sum_spend
from service.models import Account, CallFile
from service.models.calls.account_days import AccountDays
from service.models.calls.daily_spend import add_spend
from service.models.calls.plan_usage import iter_plan_windows, list_plan_groups
from service.models.calls.plans import MAX_PLANS, Plan, cost_of
from tests.cases import each_case
from tests.service.support.browser import Browser, words_of
from tests.service.support.scenes import Tenant
from tests.service.support.spend import add_plan_usage, spend_line

MARCH = (date(2026, 3, 1), date(2026, 3, 31))
ADD = "/plan-usage/plans"
RANGE = "?from=2026-03-01&to=2026-03-31"
FORM = {
    "name": "Max",
    "provider": "claude-code",
    "price": "100",
    "seats": "2",
    "paid_from": "2026-01-01",
}


def plan(first: date, last: date | None = None, price: str = "100", seats: int = 1) -> Plan:
    return Plan(price_usd=Decimal(price), seats=seats, first_day=first, last_day=last)


@each_case(
    ("paid", "cost"),
    [
        (plan(date(2025, 1, 1)), "100"),
        (plan(date(2025, 1, 1), seats=3), "300"),
        (plan(date(2026, 3, 31), price="31"), "1"),
        (plan(date(2026, 1, 1), date(2026, 3, 10), price="31"), "10"),
        (plan(date(2026, 4, 1)), "0"),
        (plan(date(2025, 1, 1), date(2026, 2, 28)), "0"),
    ],
)
def test_a_plan_costs_the_share_of_a_months_days(paid: Plan, cost: str) -> None:
    assert cost_of(paid, MARCH) == Decimal(cost)


def test_several_months_cost_each_its_own_share() -> None:
    days = date(2026, 2, 15), date(2026, 3, 31)  # 14 of 28 days, and a whole month
    assert cost_of(plan(date(2025, 1, 1), price="20"), days) == Decimal(30)


def usage(session: Session, account_id: str) -> None:
    """Add the calls of two people in March: three windows of one, one of the other."""
    lines = [
        spend_line(date(2026, 3, 2), "30", hour=hour, environment="ada", route="boats")
        for hour in (9, 13, 14, 23)
    ]
    lines.append(spend_line(date(2026, 3, 3), "92", hour=1, environment="ada", route="boats"))
    lines.append(spend_line(date(2026, 3, 9), "200", hour=9, environment="bob", route="tides"))
    every = [{**line, "provider": "claude-code", "model": "claude-opus-4-6"} for line in lines]
    add_plan_usage(session, account_id, *every)


def test_value_stands_beside_the_price_of_plans(ada: Browser, db_session: Session) -> None:
    usage(db_session, ada.account_id)
    before = words_of(ada.get(f"/plan-usage{RANGE}"))
    assert "Add your plans below" in before
    assert ada.post("/plan-usage", ADD, **FORM).status_code == 303
    page = words_of(ada.get(f"/plan-usage{RANGE}"))
    assert "You used $412.00 of API-equivalent value for $200.00" in page
    assert "$200.00 $412.00 2.1 Remove" in page
    for word in ("spent", "save", "waste"):
        assert word not in page.partition("Plan usage")[2].lower()
    assert "boats" in page
    assert "bob" in page
    assert "4 windows. Half of them had at most" in page
    remove = f"{ADD}/{db_session.query(Plan).one().id}/remove"
    assert ada.post("/plan-usage", remove).status_code == 303
    assert db_session.query(Plan).count() == 0


def test_times_are_in_the_zone_of_the_account(ada: Browser, db_session: Session) -> None:
    usage(db_session, ada.account_id)
    assert "Mar 2, 2026, 23:00 UTC" in words_of(ada.get(f"/plan-usage{RANGE}"))
    db_session.get_one(Account, ada.account_id).time_zone = "Europe/Berlin"
    db_session.commit()
    page = words_of(ada.get(f"/plan-usage{RANGE}"))
    assert "Mar 3, 2026, 00:00 CET" in page
    assert "23:00 UTC" not in page


@each_case(
    ("change", "said"),
    [
        ({"name": " "}, "Enter a name"),
        ({"provider": ""}, "Choose the tool"),
        ({"price": "-1"}, "Enter a price"),
        ({"price": "NaN"}, "Enter a price"),
        ({"seats": "0"}, "Enter a number of seats"),
        ({"paid_from": ""}, "Enter the day from which you pay"),
        ({"paid_from": "yesterday"}, "Enter days from 2000 to 2100"),
        ({"until": "2025-12-31"}, "The last day must not be before the first"),
    ],
)
def test_an_invalid_plan_is_explained_and_not_added(
    ada: Browser, db_session: Session, change: dict[str, str], said: str
) -> None:
    answer = ada.post("/plan-usage", ADD, **(FORM | change))
    assert answer.status_code == 422
    assert said in words_of(answer.text)
    assert db_session.query(Plan).count() == 0


def test_an_account_has_a_limited_number_of_plans(ada: Browser, db_session: Session) -> None:
    paid = {"name": "Pro", "provider": "codex", "first_day": date(2026, 1, 1)}
    for _ in range(MAX_PLANS):
        db_session.add(Plan(account_id=ada.account_id, price_usd=20, seats=1, **paid))
    db_session.commit()
    assert "Remove one to add another" in words_of(ada.post("/plan-usage", ADD, **FORM).text)


def test_the_api_has_the_figures_of_the_page(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    usage(db_session, tenant.account_id)
    paid = {"name": "Max", "provider": "claude-code", "first_day": date(2026, 3, 1)}
    db_session.add(Plan(account_id=tenant.account_id, price_usd=103, seats=2, **paid))
    db_session.commit()
    answer = client.get(f"/api/v1/plan-usage{RANGE}", headers=tenant.reads).get_json()
    assert answer["totals"]["value_usd"] == 412.0
    assert answer["plans"] == [
        {"provider": "claude-code", "price_usd": 206.0, "value_usd": 412.0, "ratio": 2.0}
    ]
    assert [(each["name"], each["value_usd"]) for each in answer["environments"]] == [
        ("ada", 212.0),
        ("bob", 200.0),
    ]
    assert [(each["monday"], each["calls"]) for each in answer["weeks"]] == [
        ("2026-03-09", 10),
        ("2026-03-02", 50),
    ]
    windows = [(each["start"], each["value_usd"]) for each in answer["windows"]]
    assert windows == [
        ("2026-03-09T09:00:00Z", 200.0),
        ("2026-03-02T23:00:00Z", 122.0),  # until 4 o'clock of the next day
        ("2026-03-02T09:00:00Z", 60.0),
        ("2026-03-02T14:00:00Z", 30.0),
    ]
    assert answer["window_count"] == 4
    wrong = client.get("/api/v1/plan-usage?from=2026-03-02&to=2026-03-01", headers=tenant.reads)
    assert wrong.status_code == 422


def test_a_plan_of_some_days_is_worth_the_value_of_these_days(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    usage(db_session, tenant.account_id)
    for first, last in ((3, 5), (2, 3)):  # together March 2 to 5: the $200 of March 9 isn't covered
        paid = plan(date(2026, 3, first), date(2026, 3, last), price="31")
        paid.account_id, paid.name, paid.provider = tenant.account_id, "Max", "claude-code"
        db_session.add(paid)
    db_session.commit()
    answer = client.get(f"/api/v1/plan-usage{RANGE}", headers=tenant.reads).get_json()
    [worth] = answer["plans"]
    assert (worth["price_usd"], worth["value_usd"], worth["ratio"]) == (5.0, 212.0, 42.4)
    assert answer["totals"]["value_usd"] == 412.0


def test_windows_are_the_same_wherever_the_range_begins_and_ends(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    usage(db_session, tenant.account_id)
    for first, last, count in ((2, 2, 3), (3, 8, 0), (3, 9, 1)):
        # The call at 1 o'clock of March 3 is in the window that began at 23 o'clock of March 2.
        path = f"/api/v1/plan-usage?from=2026-03-{first:02}&to=2026-03-{last:02}"
        found = client.get(path, headers=tenant.reads).get_json()
        assert found["window_count"] == count
        values = {each["start"]: each["value_usd"] for each in found["windows"]}
        assert first > 2 or values["2026-03-02T23:00:00Z"] == 122.0


def test_a_window_that_begins_at_half_past_is_of_one_day(
    tenant: Tenant, db_session: Session
) -> None:
    """At 10 past midnight in Kolkata it is 18:40 in UTC, whose hour began on the day before."""
    line = spend_line(date(2026, 3, 2), "30", hour=18, day_shift=1, provider="claude-code")
    add_plan_usage(db_session, tenant.account_id, line)
    of, counts = AccountDays("Asia/Kolkata"), {}
    for day in (1, 2, 3, 4):
        days = date(2026, 3, day), date(2026, 3, day)
        counts[day] = sum(1 for _ in iter_plan_windows(db_session, tenant.account_id, days, of))
    assert counts == {1: 0, 2: 1, 3: 0, 4: 0}


def test_calls_without_an_hour_leave_the_windows_incomplete(
    ada: Browser, db_session: Session
) -> None:
    line = spend_line(date(2026, 3, 2), "30", provider="claude-code", hour=None)
    add_plan_usage(db_session, ada.account_id, line)
    page = words_of(ada.get(f"/plan-usage{RANGE}"))
    assert "Five-hour windows are incomplete" in page
    assert "0 five-hour windows" not in page


def test_the_page_and_the_terminal_have_the_same_figures(
    tmp_path: Path, tenant: Tenant, db_session: Session
) -> None:
    write_sessions(tmp_path, 12, 0, seed=5)
    ledger = Ledger(":memory:")
    reading.update(ledger, find_sources({}, tmp_path), processes=1)
    reading.price(ledger)
    bodies = ledger.database.execute("SELECT body FROM calls")
    stored = [record_of(msgspec.msgpack.decode(body, type=Call)) for (body,) in bodies]
    names = UsageRecordV2.__struct_fields__
    records = [
        {name: value for name in names if (value := getattr(each, name)) not in (None, "")}
        for each in stored
    ]
    [lines] = sum_spend([detectors.read(records).frame], PriceBook())
    assert all(isinstance(line, DailyPlanUsage) for line in lines)
    days = min(line.day for line in lines), max(line.day for line in lines)
    file = CallFile(
        account_id=tenant.account_id, blob_key="calls/x.parquet", level=0, first_day=days[0],
        last_day=days[1], calls=len(records), bytes=1,
    )  # fmt: skip
    db_session.add(file)
    db_session.flush()
    add_spend(db_session.connection(), [(file.id, tenant.account_id, lines)])
    utc = views.Choice(zone=UTC)
    groups = list_plan_groups(db_session, tenant.account_id, days, 100)
    for group, by in (("route", "project"), ("model", "model"), ("week", "weekly")):
        theirs = {each.key: each.sums for each in views.sum_calls(ledger, by, utc)}
        found: Counter[str] = Counter()
        for each in groups[group]:
            name = str(each.name).removesuffix("#subagent")
            found[name] += each.sums.calls
            if group != "route":
                assert float(each.sums.value_usd) == pytest.approx(theirs[name].value_usd)
                assert each.sums.cached_tokens == theirs[name].cache_read_tokens
        assert found == {name: sums.calls for name, sums in theirs.items()}
    windows = list(iter_plan_windows(db_session, tenant.account_id, days))
    for agent in ("claude-code", "codex"):
        blocks = views.find_blocks(ledger, views.Choice(zone=UTC, agent=agent))
        own = [each for each in windows if each.provider == agent]
        assert [(each.start, each.calls, each.tokens) for each in own] == [
            (datetime.fromtimestamp(each.start, UTC), each.sums.calls, each.sums.total_tokens)
            for each in blocks
        ]
        assert [float(each.value_usd) for each in own] == pytest.approx(
            [each.sums.value_usd for each in blocks]
        )
        assert all(each.end - each.start == timedelta(hours=5) for each in own)
