"""The findings of an account: the list of the API, and the page that changes them."""

import csv
import io
import re
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select

from service.models import (
    Account,
    AccountFinding,
    Audit,
    FindingChange,
    FindingRecord,
    FindingSaving,
)
from service.models.base import new_id, utc_now
from tests.cases import each_case
from tests.service.support.browser import Browser, words_of
from tests.service.support.findings import add_account_finding
from tests.service.support.scenes import Sessions, Tenant, error_of
from tests.service.support.spend import add_spend, spend_line

PATH = "/api/v1/findings"
SEEN = datetime(2026, 10, 1, 12, tzinfo=UTC)
Add = Callable[..., str]


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def add(sessions: Sessions, tenant: Tenant) -> Add:
    """Add a finding; return its ID."""

    def add(usd: int, state: str = "open", **fields: Any) -> str:
        own: dict[str, Any] = {"route": f"route-{usd}", "model": "gpt-4o"}
        own |= {"first_seen": SEEN, "last_seen": SEEN, "observed_usd": Decimal(usd)}
        own["fix"] = "Put the cached part first."
        with sessions() as session:
            amount = {"state": state, "monthly_usd": Decimal(usd)}
            return add_account_finding(session, tenant.account_id, **{**own, **amount, **fields}).id

    return add


@pytest.fixture
def owner(app: Flask, sessions: Sessions, tenant: Tenant) -> Browser:
    """The browser of the account's owner."""
    with sessions() as session:
        email = session.get_one(Account, tenant.account_id).email
    return Browser(app, sessions, email)


def listed(client: FlaskClient, tenant: Tenant, query: str = "") -> dict[str, Any]:
    response = client.get(f"{PATH}{query}", headers=tenant.reads)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.get_json()
    return answer


def test_unresolved_findings_are_listed_most_savings_first(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    ids = [add(usd, state) for usd, state in ((3, "open"), (9, "returned"), (5, "acknowledged"))]
    add(99, "fixed")
    add(98, "dismissed", silent_until=SEEN)
    found = listed(client, tenant)["findings"]
    assert [each["id"] for each in found] == [ids[1], ids[2], ids[0]]
    assert found[0]["monthly_cost_impact_usd"] == 9.0
    assert found[0]["first_seen"] == "2026-10-01T12:00:00Z"
    assert "fixed_at" not in found[0]
    dismissed = listed(client, tenant, "?state=dismissed")["findings"]
    assert [each["silent_until"] for each in dismissed] == ["2026-10-01T12:00:00Z"]
    assert len(listed(client, tenant, "?state=all")["findings"]) == 5


def test_pages_follow_one_another_without_gaps(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    ids = {add(usd) for usd in (1, 2, 2, 2, 3)}
    found, query = list[str](), "?limit=2"
    while True:
        page = listed(client, tenant, query)
        found += [each["id"] for each in page["findings"]]
        if "next_cursor" not in page:
            break
        query = f"?limit=2&cursor={page['next_cursor']}"
    assert len(found) == 5
    assert set(found) == ids


@each_case(
    ("query", "expected"),
    [
        ("?state=broken", "must be one of unresolved, open, acknowledged"),
        ("?cursor=x", "must be the next_cursor of an earlier response"),
        ("?cursor=WyJ4IiwieSJd", "must be the next_cursor of an earlier response"),
        ("?limit=0", "must be a whole number from 1 to 200"),
        ("?format=xlsx", "must be one of json, csv"),
        ("?route=", "must have 1 to 200 characters"),
        ("?assignee=a%00b", "must have 1 to 200 characters"),
    ],
)
def test_bad_parameters_are_explained(
    query: str, expected: str, client: FlaskClient, tenant: Tenant
) -> None:
    response = client.get(f"{PATH}{query}", headers=tenant.reads)
    assert expected in error_of(response, 422, "validation_error")


def test_findings_are_filtered_by_what_they_are_about(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    mine = add(5, assignee="Dana Ó Briain <dana@example.com>", route="chat")
    other = add(4, detector="d4_duplicate_calls", model="gpt-5.5")
    for query, expected in (
        ("?detector=d4_duplicate_calls", [other]),
        ("?route=chat", [mine]),
        ("?model=gpt-5.5", [other]),
        ("?assignee=Dana+%C3%93+Briain+%3Cdana%40example.com%3E", [mine]),
        ("?assignee=Dana", []),
        ("?route=chat&model=gpt-5.5", []),
    ):
        found = listed(client, tenant, query)["findings"]
        assert [each["id"] for each in found] == expected, query


def test_all_findings_are_a_table_without_formulas(
    client: FlaskClient, tenant: Tenant, add: Add
) -> None:
    first = add(5, route="=SUM(A1)", note="Two\nlines", assignee="+1 555 0100", fix="-x")
    add(4, "returned")
    add(3, "fixed")
    with client.get(f"{PATH}?format=csv&limit=1", headers=tenant.reads) as response:
        assert (response.status_code, response.mimetype) == (200, "text/csv")
        text = response.data.decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [row["state"] for row in rows] == ["open", "returned"]
    row, described = rows[0], listed(client, tenant)["findings"][0]
    assert row["id"] == described["id"] == first
    assert (row["route"], row["assignee"]) == ("'=SUM(A1)", "'+1 555 0100")
    assert row["note"] == "Two\nlines"
    assert Decimal(row["monthly_cost_impact_usd"]) == 5
    assert row["first_seen"] == described["first_seen"]
    optional = {"fixed_at", "silent_until", "realized_savings_usd", "realized_monthly_usd"}
    assert set(row) == set(described) | optional
    etag = response.headers["ETag"]
    known = {**tenant.reads, "If-None-Match": etag}
    with client.get(f"{PATH}?format=csv", headers=known) as again:
        assert again.status_code == 304


# The page


def test_an_account_without_findings_sees_when_they_come(owner: Browser) -> None:
    assert "No findings yet" in words_of(owner.get("/findings"))


@pytest.mark.parametrize(
    ("action", "state"),
    [
        ("acknowledge", "acknowledged"),
        ("fix", "fixed"),
        ("dismiss", "dismissed"),
        ("dismiss_90", "dismissed"),
    ],
)
def test_selected_findings_change_and_say_who_changed_them(
    action: str, state: str, owner: Browser, add: Add, sessions: Sessions
) -> None:
    chosen, other = [add(1), add(2)], add(3)
    page = owner.get("/findings")
    assert all(finding in page for finding in (*chosen, other))
    answer = owner.post(
        "/findings",
        "/findings",
        finding=chosen,
        action=action,
        reason="Known\nto us",
        state="all",
        do="change",
    )
    assert answer.status_code == 303
    assert re.fullmatch(r"/findings\?state=all&changed=2&undo=[0-9a-f]{32}", answer.location)
    with sessions() as session:
        rows = {row.id: row for row in session.scalars(select(AccountFinding))}
        changes = session.scalars(select(FindingChange)).all()
    assert [rows[each].state for each in (*chosen, other)] == [state, state, "open"]
    assert (rows[chosen[0]].fixed_at is not None) == (state == "fixed")
    silent = rows[chosen[0]].silent_until
    if action == "dismiss_90":
        assert silent is not None
        assert timedelta(days=89) < silent - utc_now() < timedelta(days=91)
    else:
        assert silent is None
    assert {(each.before, each.after, each.reason) for each in changes} == {
        ("open", state, "Known to us")
    }
    assert {each.changed_by for each in changes} == {owner.email}
    assert "We changed 2 findings." in words_of(owner.get("/findings?changed=2"))


def test_an_unknown_action_is_refused(owner: Browser, add: Add) -> None:
    answer = owner.post("/findings", "/findings", finding=add(1), action="burn")
    assert answer.status_code == 422


def test_findings_are_assigned_together_and_the_list_is_filtered_by_assignee(
    owner: Browser, add: Add, sessions: Sessions
) -> None:
    chosen, other = [add(1), add(2)], add(3)
    name = " Dana Ó Briain <dana@example.com>"
    form: dict[str, str | list[str]] = {"finding": chosen, "do": "assign", "new_assignee": name}
    changed = owner.post("/findings", "/findings", **form).location
    assert re.fullmatch(r"/findings\?changed=2&undo=[0-9a-f]{32}", changed)
    assert owner.post("/findings", "/findings", **form).location == "/findings?changed=0"
    with sessions() as session:
        rows = {row.id: row.assignee for row in session.scalars(select(AccountFinding))}
        changes = session.scalars(select(FindingChange)).all()
    assert [rows[each] for each in (*chosen, other)] == [name, name, ""]
    assert {(each.field, each.before, each.after) for each in changes} == {("assignee", "", name)}
    assert {each.changed_by for each in changes} == {owner.email}
    page = owner.get(f"/findings?{urlencode({'assignee': name})}")
    assert all(f'value="{each}"' in page for each in chosen)
    assert f'value="{other}"' not in page
    form["new_assignee"] = "x" * 121
    answer = owner.post("/findings", "/findings", **form)
    assert "at most 120 characters" in words_of(answer.text)


@each_case(
    ("model", "call"),
    [
        ("claude-sonnet-4-5", '"cache_control": {"type": "ephemeral"}'),
        ("gemini-2.5-pro", "client.caches.create("),
        ("gpt-4o", "client.chat.completions.create("),
        ("<b>", "model=MODEL"),
    ],
)
def test_a_page_shows_the_change_for_the_provider_as_code(
    owner: Browser, add: Add, model: str, call: str
) -> None:
    page = owner.get(f"/findings/{add(5, model=model)}")
    assert call in unescape(page.partition("<pre")[2].partition("</pre>")[0])
    assert "<pre" not in owner.get(f"/findings/{add(6, model=model, kind='unread_writes')}")


def test_a_finding_has_a_page_with_its_life(owner: Browser, add: Add, sessions: Sessions) -> None:
    finding = add(5, route="chat")
    add_audits(sessions, owner.account_id, finding)
    page = f"/findings/{finding}"
    sent = {"assignee": "Dana", "note": "Line 1\r\nLine 2 <b>"}
    answer = owner.post(page, page, **sent)
    assert (answer.status_code, answer.location) == (303, f"{page}?saved=")
    moved = {"finding": finding, "from": "finding", "action": "dismiss", "reason": "Intended"}
    assert owner.post(page, "/findings", **moved).location == page
    text = owner.get(page)
    words = words_of(text)
    assert "Line 1\nLine 2 &lt;b&gt;" in text
    # The form is closed, but who has the finding and the note are seen and printed.
    assert '<div class="note-text"><dt>Note</dt><dd><bdi>Line 1' in text
    for expected in (
        "Missed prompt caching",
        "Put the cached part first.",
        "We don't notify them.",
        f"{owner.email} assigned it to Dana",
        "changed the note to: Line 1",
        f"{owner.email} changed the state from open to dismissed : Intended",
        "$0.00 in the latest of 3 audits; peak: $7.50 on Oct 8, 2026 (UTC).",
        "Oct 8, 2026 $7.50",
    ):
        assert expected in words, expected
    with sessions() as session:
        row = session.get_one(AccountFinding, finding)
        assert (row.assignee, row.note) == ("Dana", "Line 1\nLine 2 <b>")


def add_audits(sessions: Sessions, account_id: str, finding: str) -> None:
    """Three audits, one before the finding was found and one that lacks it."""
    with sessions() as session:
        for week, usd in ((-1, None), (0, "7"), (1, "7.50"), (2, None)):
            at, audit_id = SEEN + timedelta(days=7 * week), new_id()
            own = {"account_id": account_id, "source": "account", "status": "done"}
            times = {"created_at": at, "finished_at": at, "window_days": 30}
            session.add(Audit(id=audit_id, blob_key="", **own, **times))
            if usd is not None:
                dollars = {"monthly_usd": Decimal(usd), "observed_usd": Decimal(usd)}
                record = {"account_finding_id": finding, "audit_id": audit_id, "calls": 3}
                session.add(FindingRecord(**record, **dollars))
        session.commit()


@each_case("typed", [{"assignee": "x" * 121}, {"assignee": "a\nb"}, {"note": "x" * 2_001}])
def test_a_text_that_is_too_long_is_shown_again(
    typed: dict[str, str], owner: Browser, add: Add
) -> None:
    page = f"/findings/{add(1)}"
    answer = owner.post(page, page, **typed)
    assert answer.status_code == 422
    assert "Use " in words_of(answer.text)
    assert typed.get("note", "") in answer.text


def test_the_page_of_a_fixed_finding_explains_what_it_saved(
    owner: Browser, add: Add, sessions: Sessions
) -> None:
    """Before the fix $2 a day in 10 calls a day; since then none, in 5 calls a day."""
    fixed_on = SEEN.date()
    finding = add(0, "fixed", fixed_at=SEEN, route="chat")
    with sessions() as session:
        for back in range(20):
            day = fixed_on - timedelta(days=back)
            own = {"account_finding_id": finding, "day": day, "calls": 1}
            session.add(FindingSaving(saving_usd=Decimal(2), **own))
        before = [spend_line(fixed_on - timedelta(days=back)) for back in range(20)]
        since = [spend_line(fixed_on + timedelta(days=ahead), calls=5) for ahead in range(1, 11)]
        add_spend(session, owner.account_id, *before, *since)
    words = words_of(owner.get(f"/findings/{finding}"))
    for expected in (
        "Realized savings $30 /month $10.00 since Oct 1, 2026",
        "$28.00 ÷ 140 calls in the 14 days until Oct 1, 2026 = $0.20",
        "$0.00 ÷ 50 calls in 10 days = $0.00",
        "$10.00 ÷ 10 days × 30 = $30",
    ):
        assert expected in words, expected
    assert "$30 /month saved" in words_of(owner.get("/findings?state=fixed"))


def test_the_downloads_have_what_the_filters_show(owner: Browser, add: Add) -> None:
    add(1, route="chat")
    found = add(2, route="search", is_monthly=False)
    with owner.client.get("/findings.csv?route=search") as response:
        text = response.data.decode("utf-8-sig")
    assert (text.count("search"), text.count("chat")) == (1, 0)
    assert response.headers["Content-Disposition"].endswith("tallystick-findings-utc.csv")
    with owner.client.get("/findings.xlsx?route=search") as response:
        book = zipfile.ZipFile(io.BytesIO(response.data))
    sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert (sheet.count("<t>search</t>"), sheet.count("<t>chat</t>")) == (1, 0)
    assert "/findings.csv?route=search" in owner.get("/findings?route=search")
    assert "$2.00 in the period" in words_of(owner.get("/findings"))
    assert "Too little data to project a month" in words_of(owner.get("/findings"))
    page = words_of(owner.get(f"/findings/{found}"))
    assert "Too little data to project a month: the amount is that of the period" in page
