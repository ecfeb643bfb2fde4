"""/imports: batches by day and client, uploads with their labels, and audits of the account."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.models import Account, Audit, IngestKey, SpanBatch
from service.models.audits.audit_lists import PAGE_SIZE
from service.models.base import utc_now
from service.models.imports import by_day
from service.models.imports.by_day import DAYS_SHOWN
from service.web.pages.imports import page as page_of_imports
from tests.cases import each_case
from tests.service.support.scenes import INGEST, INGEST_V2, Sessions, Tenant, batch, bearer, sign_in
from tests.service.support.uploads import Person, add_person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_run
from tests.service.web.pages.words import words

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def show(client: FlaskClient, person: Person, query: str = "") -> TestResponse:
    response = client.get(
        query if query.startswith("/") else f"/imports{query}", headers=person.headers
    )
    assert response.status_code == 200
    return response


def link(response: TestResponse, pattern: str) -> str | None:
    found = re.search(rf'<a href="([^"]+)"{pattern}', response.get_data(as_text=True))
    return found[1].replace("&amp;", "&") if found else None


def add_batches(sessions: Sessions, person: Person, count: int, **fields: Any) -> list[str]:
    at = fields.pop("created_at", NOON)
    values = {"source": "ingest", "client": "api", "records": 50, **fields}
    return [
        add_run(sessions, person.account_id, created_at=at + timedelta(seconds=number), **values)
        for number in range(count)
    ]


def test_a_new_user_sees_the_next_step(client: FlaskClient, person: Person) -> None:
    page = words(show(client, person))
    assert "No imports yet" in page
    assert "Upload a log" in page
    assert "Clients" not in page


def test_batches_are_one_line_for_each_day_client_and_environment(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    cost: dict[str, Any] = {"total_spend_usd": Decimal("1.50")}
    add_batches(sessions, person, 3, environment="eu", **cost)
    add_batches(sessions, person, 2, environment="us", **cost)
    add_batches(sessions, person, 1, environment="eu", status="failed", error="x")
    add_batches(sessions, person, 2, environment="us", status="queued")
    add_batches(sessions, person, 1, created_at=NOON - timedelta(days=1), client=None, **cost)
    page = words(show(client, person))
    assert "4 batches from api · eu 1 failed 200 $4.50 Mar 1, 2026, 12:00 UTC" in page
    assert "4 batches from api · us 2 in progress 200 $3.00" in page
    assert "1 batch from Unknown client Done 50 $1.50 Feb 28, 2026, 12:00 UTC" in page
    assert page.index("Mar 1, 2026") < page.index("Feb 28, 2026")


def test_a_batch_names_its_key_and_its_environment(
    client: FlaskClient, tenant: Tenant, sessions: Sessions
) -> None:
    with sessions() as session:
        key, secret = IngestKey.minted(tenant.account_id, label="Checkout <b>")
        session.add(key)
        session.commit()
        email = session.get_one(Account, tenant.account_id).email
    for body, path in (
        (batch(2, environment="eu"), INGEST_V2),
        (batch(1), INGEST),
        ({"records": [*batch(1, environment="eu")["records"], *batch(1)["records"]]}, INGEST_V2),
    ):
        assert client.post(path, json=body, headers=bearer(secret)).status_code == 201
    assert client.post(INGEST, json=batch(1), headers=tenant.writes).status_code == 201
    response = show(client, Person(tenant.account_id, email, sign_in(sessions, email)))
    page = words(response)
    assert "1 batch from Checkout <b> · eu" in page
    assert "2 batches from Checkout <b> 2 in progress" in page
    assert f"1 batch from {tenant.key[:6]}" in page
    assert "Checkout &lt;b&gt;" in response.get_data(as_text=True)


def test_clients_are_listed_with_when_they_were_last_seen(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    add_batches(sessions, person, 2, created_at=NOON - timedelta(days=40), client="quiet")
    add_batches(sessions, person, 3, environment="eu")
    add_batches(sessions, person, 1, environment="us", created_at=NOON - timedelta(days=1))
    add_batches(sessions, person, 1, client=None, created_at=NOON - timedelta(days=2))
    add_run(sessions, person.account_id, created_at=NOON)
    other, later = add_person(sessions), NOON + timedelta(days=1)
    for name in ("api", "the others"):
        add_batches(sessions, other, 1, client=name, environment="eu", created_at=later)
    page = words(show(client, person)).partition("By day")[0]
    expected = (
        "api eu Mar 1, 2026, 12:00 UTC api us Feb 28, 2026, 12:00 UTC"
        " Unknown client – Feb 27, 2026, 12:00 UTC quiet – Jan 20, 2026, 12:00 UTC"
    )
    assert expected in page
    assert "others" not in page


def test_uploads_are_a_line_each_with_their_label(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    file: dict[str, Any] = {"content_hash": b"of the file", "created_at": NOON, "records": 9}
    first = add_run(sessions, person.account_id, label="February <i>", **file)
    add_run(sessions, person.account_id, **{**file, "created_at": NOON + timedelta(days=1)})
    add_run(sessions, person.account_id, status="failed", error="Too few.", created_at=NOON)
    response = show(client, person)
    assert link(response, "><bdi>February &lt;i&gt;</bdi>") == f"/audits/{first}"
    page = words(response)
    assert "Upload same file as on Mar 1, 2026, counted once Done 9" in page
    assert "Upload Failed" in page
    assert "Too few." in page
    assert "A call that was logged more than once is then counted once" in page


def test_a_day_with_many_uploads_continues_on_the_next_page(
    client: FlaskClient, person: Person, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (by_day, page_of_imports):
        monkeypatch.setattr(module, "UPLOADS_SHOWN", 3)
    for day, uploads in enumerate((1, 4, 2, 1)):
        for number in range(uploads):
            at = NOON - timedelta(days=day, minutes=number)
            add_run(sessions, person.account_id, created_at=at, label=f"{day}-{number}")
    add_batches(sessions, person, 1, created_at=NOON - timedelta(days=1, hours=1))
    expected = (["0-0"], ["1-0", "1-1", "1-2"], ["1-3", "2-0", "2-1"], ["3-0"])
    queries: list[str | None] = [""]
    for labels in expected:
        response = show(client, person, str(queries[-1]))
        page = response.get_data(as_text=True)
        assert re.findall(r"<bdi>(\d-\d)</bdi>", page) == labels
        is_crowded = labels[0] == "1-0"
        assert ("More uploads from this day" in page, "1 batch</a>" in page) == (is_crowded,) * 2
        queries.append(link(response, ' rel="next"'))
        if labels[0] == "1-3":
            assert "Feb 28, 2026, continued</h3>" in page
            assert link(response, ' rel="prev"') == queries[1]
    assert queries[-1] is None
    others = add_run(sessions, add_person(sessions).account_id, created_at=NOON)
    query = f"?until=2026-02-28&before={others}"
    assert "continued" not in show(client, person, query).get_data(as_text=True)


def test_a_day_with_many_clients_lists_the_latest(
    client: FlaskClient, person: Person, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (by_day, page_of_imports):
        monkeypatch.setattr(module, "BATCH_LINES_SHOWN", 2)
    for hours, name in ((0, "a"), (1, "b"), (2, "c"), (24, "d")):
        add_batches(sessions, person, 1, client=name, created_at=NOON - timedelta(hours=hours))
    first = show(client, person)
    assert re.findall(r"1 batch from (\w)", words(first)) == ["a", "b"]
    assert "Only the latest 2 are listed." in words(first)
    second = words(show(client, person, str(link(first, ' rel="next"'))))
    assert re.findall(r"1 batch from (\w)", second) == ["d"]
    assert "are listed" not in second


def test_audits_of_the_account_are_apart(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    own = add_run(sessions, person.account_id, source="account", window_days=30, created_at=NOON)
    add_batches(sessions, person, 1)
    page = show(client, person).get_data(as_text=True)
    before, after = page.split("Audits of all your calls</h2>")
    assert own not in before
    assert f'href="/audits/{own}"' in after
    assert "30 days" in after


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", {"batch", "upload", "account"}),
        ("?source=ingest", {"batch"}),
        ("?source=upload", {"upload"}),
        ("?source=account", {"account"}),
        ("?status=failed", {"batch"}),
        ("?status=failed&source=upload", set()),
        ("?status=odd&source=%00'", {"batch", "upload", "account"}),
    ],
)
def test_imports_are_filtered(
    client: FlaskClient, person: Person, sessions: Sessions, query: str, shown: set[str]
) -> None:
    add_batches(sessions, person, 1, status="failed", error="x")
    upload = add_run(sessions, person.account_id, created_at=NOON)
    own = add_run(sessions, person.account_id, source="account", created_at=NOON)
    page = show(client, person, query).get_data(as_text=True)
    marks = {"batch": "1 batch</a>", "upload": upload, "account": own}
    assert {name for name, mark in marks.items() if mark in page} == shown
    assert ("No imports match" in page) == (not shown)


def test_pages_of_days_miss_none_and_skip_days_without_imports(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    days = [0, 3, DAYS_SHOWN - 1, DAYS_SHOWN, 40, 41, 40 + DAYS_SHOWN]
    added = {
        add_run(sessions, person.account_id, created_at=NOON - timedelta(days=day)) for day in days
    }
    pages = [show(client, person)]
    while older := link(pages[-1], ' rel="next"'):
        pages.append(show(client, person, older))
    seen = [
        set(re.findall(r"/audits/([0-9a-f]{32})", page.get_data(as_text=True))) for page in pages
    ]
    assert set.union(*seen) == added
    assert [len(each) for each in seen] == [3, 1, 2, 1]
    newer, steps = pages[-1], 0
    while address := link(newer, ' rel="prev"'):
        newer, steps = show(client, person, address), steps + 1
    assert steps == 3


def test_the_batches_of_a_client_open_in_pages(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    ids = add_batches(sessions, person, PAGE_SIZE + 2, environment="e&u")
    add_batches(sessions, person, 2, environment="us")
    add_batches(sessions, person, 2, created_at=NOON - timedelta(days=1), environment="e&u")
    address = link(show(client, person), f">{PAGE_SIZE + 2} batches")
    assert address is not None
    first = show(client, person, address)
    older = link(first, ' rel="next"')
    assert older is not None
    assert "A call that was logged more than once is then counted once" in words(first)
    listed = [
        found
        for page in (first, show(client, person, older))
        for found in re.findall(r'<a href="/audits/([0-9a-f]+)"', page.get_data(as_text=True))
    ]
    assert listed == ids[::-1]
    assert "until=2026-03-01" in str(link(first, ">Back to all imports"))


@each_case(
    "query",
    [
        "?day=2026-13-01",
        "?until=tomorrow",
        "?until=0001-01-01",
        "?day=9999-12-31",
        "?until=9999-12-31",
    ],
)
def test_impossible_days_show_a_page(client: FlaskClient, person: Person, query: str) -> None:
    show(client, person, query)


def test_it_reveals_nothing_about_others(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    other, before = add_person(sessions), NOON - timedelta(hours=1)
    file: dict[str, Any] = {"content_hash": b"of the file", "created_at": NOON}
    names = {"label": "secret", "environment": "secret", "created_at": before}
    theirs = add_run(sessions, other.account_id, **{**file, **names})
    add_batches(sessions, other, 3, client="secret", environment="secret")
    mine = add_run(sessions, person.account_id, **file)
    for query in ("", f"?day=2026-03-01&client=secret&before={theirs}", "?source=ingest"):
        page = show(client, person, query).get_data(as_text=True)
        assert theirs not in page
        assert "same file" not in page
        assert page.count("secret") == (1 if "secret" in query else 0)
    assert mine in show(client, person).get_data(as_text=True)


def test_the_number_of_queries_does_not_grow_with_imports(
    client: FlaskClient, person: Person, sessions: Sessions, statements: list[str]
) -> None:
    counts = []
    for _ in range(2):
        add_batches(sessions, person, 10, created_at=utc_now() - timedelta(minutes=1))
        statements.clear()
        show(client, person)
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 10
    with sessions() as session:
        assert session.query(Audit).filter_by(account_id=person.account_id).count() == 20


def test_calls_in_spans_are_shown_until_their_import_and_can_be_imported_now(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    assert "OpenTelemetry" not in words(show(client, person))
    with sessions() as session:
        row = {"account_id": person.account_id, "lines": b"x", "keys": b"", "links": b""}
        session.add(SpanBatch(calls=1_200, size=1, received_at=NOON, **row))
        session.commit()
    shown = words(show(client, person))
    assert "1,200 calls from OpenTelemetry will be imported by Mar 1, 2026, 13:00" in shown
    assert "No imports" not in shown
    form = load_form(client, "/imports", "waiting", person.headers)
    fields = {"csrf_token": form.token}
    assert client.post(form.action, headers=form.headers, data=fields).status_code == 303
    shown = words(show(client, person))
    assert "1,200 calls from OpenTelemetry will be imported within seconds." in shown
    assert "Import now" not in shown
