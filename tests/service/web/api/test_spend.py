"""GET /api/v1/spend."""

import csv
import io
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models.base import utc_now
from service.reports import focus
from service.web.schemas.cursors import SpendCursor, find_spend_cursor, make_spend_cursor
from tests.cases import each_case
from tests.service.support.scenes import Tenant, error_of
from tests.service.support.spend import FIRST, add_month, add_spend, spend_line

SPEND = "/api/v1/spend"
MARCH = {"from": "2026-03-01", "to": "2026-03-31"}
SECOND = FIRST + timedelta(days=1)
SUMS = (
    *("calls", "unpriced_calls", "prompt_tokens", "completion_tokens", "cached_tokens"),
    *("cache_write_tokens", "cost_usd", "list_usd"),
)


@pytest.fixture
def lines(db_session: Session, tenant: Tenant) -> list[dict[str, Any]]:
    """Two days in two files, which share a group."""
    first = [
        spend_line(cost="0.000000001"),
        spend_line(cost="1234567.89", model="gpt-5.5-mini", environment=""),
        spend_line(cost="0", route="", model="mystery", unpriced_calls=10),
    ]
    second = [spend_line(cost="2"), spend_line(SECOND, "0.1"), spend_line(SECOND, "0.2", route="É")]
    add_spend(db_session, tenant.account_id, *first)
    add_spend(db_session, tenant.account_id, *second)
    return first + second


def _get(client: FlaskClient, tenant: Tenant, **query: Any) -> dict[str, Any]:
    response = client.get(f"{SPEND}?{urlencode(query)}", headers=tenant.reads)
    assert response.status_code == 200, response.get_data(as_text=True)
    document: dict[str, Any] = response.get_json()
    return document


def _pages(client: FlaskClient, tenant: Tenant, **query: Any) -> Iterator[dict[str, Any]]:
    while True:
        page = _get(client, tenant, **query)
        yield page
        if "next_cursor" not in page:
            return
        query["cursor"] = page["next_cursor"]


def _sums(lines: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Return the groups as a person would sum them, with dollars as JSON has them."""
    groups: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in lines:
        sums = groups.setdefault(tuple(line[key] for key in keys), dict.fromkeys(SUMS, Decimal(0)))
        for name in SUMS:
            sums[name] += line[name]
    return [
        {
            name: str(value) if name == "day" else value
            for name, value in zip(keys, key, strict=True)
        }
        | {name: float(value) for name, value in groups[key].items()}
        for key in sorted(groups)
    ]


@each_case(
    "group_by",
    ["day", "route", "model,day", "environment,provider", "route,model,environment", "day,route"],
)
def test_rows_are_exact_sums_over_all_files_in_the_order_of_the_keys(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], group_by: str
) -> None:
    found = _get(client, tenant, group_by=group_by, **MARCH)
    assert found["group_by"] == group_by.split(",")
    assert (found["from"], found["to"]) == ("2026-03-01", "2026-03-31")
    assert found["spend"] == _sums(lines, *group_by.split(","))
    assert found["totals"] == _sums(lines)[0]
    assert "next_cursor" not in found


def test_a_range_includes_both_of_its_days_and_no_others(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]]
) -> None:
    found = _get(client, tenant, **{"from": "2026-03-02", "to": "2026-03-02"})
    assert [row["day"] for row in found["spend"]] == ["2026-03-02"]
    assert (found["totals"]["calls"], found["totals"]["cost_usd"]) == (20, 0.3)
    before = _get(client, tenant, **{"from": "2026-02-01", "to": "2026-02-28"})
    assert before["spend"] == []
    assert before["totals"] == dict.fromkeys(SUMS, 0)
    most = _get(client, tenant, **{"from": "2025-01-26", "to": "2026-03-01"})
    assert most["totals"]["calls"] == 40


def test_the_default_is_the_last_thirty_days_by_day(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    today = utc_now().date()
    add_month(db_session, tenant.account_id, today, days=40)
    found = _get(client, tenant)
    assert [row["day"] for row in found["spend"]] == [
        str(today - timedelta(days=back)) for back in reversed(range(30))
    ]
    assert found["totals"]["cost_usd"] == 30 * 9.75
    assert _get(client, tenant, to="2026-03-01")["from"] == "2026-01-31"


@each_case("limit", [1, 2, 5, 6, 200])
@each_case("group_by", ["route,model,environment", "day,route"])
def test_pages_together_are_all_rows_and_each_has_the_totals(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], limit: int, group_by: str
) -> None:
    pages = list(_pages(client, tenant, limit=limit, group_by=group_by, **MARCH))
    rows = [row for page in pages for row in page["spend"]]
    assert rows == _sums(lines, *group_by.split(","))
    assert [len(page["spend"]) for page in pages[:-1]] == [limit] * (len(pages) - 1)
    assert {str(page["totals"]) for page in pages} == {str(pages[0]["totals"])}


def test_a_cursor_keeps_its_range_and_what_is_added_meanwhile_moves_no_page(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], db_session: Session
) -> None:
    first = _get(client, tenant, group_by="route", limit=1, **MARCH)
    add_spend(db_session, tenant.account_id, spend_line(route="a"), spend_line(route=""))
    rest = _get(client, tenant, group_by="route", cursor=first["next_cursor"])
    assert (rest["from"], rest["to"]) == ("2026-03-01", "2026-03-31")
    routes = [row["route"] for row in first["spend"] + rest["spend"]]
    assert routes == ["", "a", "chat", "É"]


def test_labels_as_long_as_they_can_be_fit_into_a_cursor(
    client: FlaskClient, tenant: Tenant, db_session: Session
) -> None:
    long: dict[str, Any] = {name: "🦉" * 200 for name in ("route", "model", "environment")}
    other = {**long, "route": "🧮"}
    add_spend(db_session, tenant.account_id, spend_line(**long), spend_line(**other))
    query = {"group_by": "route,model,environment", "limit": 1, **MARCH}
    assert len(list(_pages(client, tenant, **query))) == 2


DAY = "must be a day from 2000-01-01 to 2100-12-31, such as 2026-03-01"
KEYS = "must be keys separated by commas, of day, route, model, provider, environment"
CURSOR = "must be the next_cursor of an earlier response"
OTHER = make_spend_cursor(SpendCursor(FIRST, SECOND, ("route",), ("chat",)))


@each_case(
    ("query", "message"),
    [
        ("from=2026-03", f"from {DAY}"),
        ("from=20260301", f"from {DAY}"),
        ("to=2026-02-30", f"to {DAY}"),
        ("to=0001-01-01", f"to {DAY}"),
        ("to=2026-03-01T00:00:00Z", f"to {DAY}"),
        ("from=2026-03-02&to=2026-03-01", "from must not be after to"),
        ("from=2025-01-25&to=2026-03-01", "from must be less than 400 days before to"),
        ("group_by=", f"group_by {KEYS}"),
        ("group_by=day,cost", f"group_by {KEYS}"),
        ("group_by=day,%20route", f"group_by {KEYS}"),
        ("group_by=day,day", "group_by must name each key once"),
        ("group_by=day,route,model,provider", "group_by must name at most 3 keys"),
        ("format=xml", "format must be one of json, csv, focus"),
        ("format=focus&version=1.3", "version must be one of 1.2, 1.4"),
        ("limit=0", "limit must be a whole number from 1 to 200"),
        ("cursor=", f"cursor {CURSOR}"),
        ("cursor=eA", f"cursor {CURSOR}"),
        (f"cursor={OTHER}", f"cursor {CURSOR} with the same group_by"),
    ],
)
def test_bad_input_is_rejected_with_what_was_expected(
    client: FlaskClient, tenant: Tenant, query: str, message: str
) -> None:
    response = client.get(f"{SPEND}?{query}", headers=tenant.reads)
    assert error_of(response, 422, "validation_error") == message


@each_case(
    "values", [("day", "2026-02-30"), ("day", ""), ("route", "a\x00b"), ("route", "x" * 201)]
)
def test_a_cursor_that_no_response_has_is_none(values: tuple[str, str]) -> None:
    key, label = values
    made = make_spend_cursor(SpendCursor(FIRST, SECOND, (key,), (label,)))
    assert find_spend_cursor(made) is None
    assert find_spend_cursor("W10") is None


def test_a_cursor_is_decoded_to_what_it_was_made_of() -> None:
    position = SpendCursor(FIRST, SECOND, ("day", "route"), (date(2026, 3, 2), "Grüße, 🦉"))
    assert find_spend_cursor(make_spend_cursor(position)) == position


def test_csv_has_all_rows_whatever_the_limit_and_no_formula(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], db_session: Session
) -> None:
    add_spend(db_session, tenant.account_id, spend_line(route='=HYPERLINK("http://x")'))
    query = urlencode({"group_by": "route,day", "format": "csv", "limit": 1, **MARCH})
    with client.get(f"{SPEND}?{query}", headers=tenant.reads) as response:
        table, headers = response.data.decode(), response.headers
    assert (response.status_code, response.mimetype) == (200, "text/csv")
    assert headers["Content-Disposition"] == "attachment; filename=tallystick-spend-utc.csv"
    assert int(headers["Content-Length"]) == len(table.encode())
    header, *rows = csv.reader(io.StringIO(table, newline=""))
    assert header == ["route", "day", *SUMS]
    assert [row[:2] for row in rows] == [
        ["", "2026-03-01"],
        ['\'=HYPERLINK("http://x")', "2026-03-01"],
        ["chat", "2026-03-01"],
        ["chat", "2026-03-02"],
        ["É", "2026-03-02"],
    ]
    costs = [Decimal(row[-2]) for row in rows]
    assert sum(costs) == sum(line["cost_usd"] for line in lines) + Decimal("1.5")
    assert rows[0][-2] == "0.000000000"


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_an_unchanged_answer_is_not_sent_again(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], db_session: Session, kind: str
) -> None:
    url = f"{SPEND}?{urlencode({'format': kind, **MARCH})}"
    with client.get(url, headers=tenant.reads) as first:
        known = {**tenant.reads, "If-None-Match": first.headers["ETag"]}
    assert "RateLimit-Remaining" in first.headers
    with client.get(url, headers=known) as again:
        assert (again.status_code, again.data) == (304, b"")
    add_spend(db_session, tenant.account_id, spend_line())
    with client.get(url, headers=known) as changed, client.head(url, headers=tenant.reads) as head:
        assert (changed.status_code, head.status_code, head.data) == (200, 200, b"")


def test_a_page_takes_one_statement(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]], statements: list[str]
) -> None:
    _get(client, tenant, group_by="route", **MARCH)
    assert len([text for text in statements if "daily_spend" in text]) == 1


def test_charges_of_focus_add_up_to_the_totals(
    client: FlaskClient, tenant: Tenant, lines: list[dict[str, Any]]
) -> None:
    totals = _get(client, tenant, **MARCH)["totals"]
    query = urlencode({**MARCH, "format": "focus", "group_by": "route", "limit": 1})
    with client.get(f"{SPEND}?{query}", headers=tenant.reads) as response:
        assert (response.status_code, response.mimetype) == (200, "text/csv")
        rows = list(csv.DictReader(io.StringIO(response.data.decode(), newline="")))
    groups = {tuple(line[name] for name in focus.KEYS) for line in lines}
    assert len(rows) == len(groups) < len(lines)
    assert {row["BillingAccountId"] for row in rows} == {tenant.account_id}

    def total(name: str) -> Decimal:
        return sum((Decimal(row[name]) for row in rows), Decimal(0))

    assert float(total("ListCost")) == totals["list_usd"]
    assert float(total("EffectiveCost")) == float(total("ContractedCost")) == totals["cost_usd"]
    tokens = totals["prompt_tokens"] + totals["completion_tokens"]
    assert total("ConsumedQuantity") == tokens
    for name, column in (("calls", "x_Calls"), ("unpriced_calls", "x_UnpricedCalls")):
        assert total(column) == totals[name]
