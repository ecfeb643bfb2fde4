"""Admin pages and actions through the real web process; every action is logged."""

import csv
import io
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from detectors.rules.methods import METHODS
from service.models import AdminAction, Audit, EarlyAccess, Payment, ReportRow, StoredData
from service.models.base import utc_now
from tests.cases import each_case
from tests.databases import as_owner
from tests.lazily import pypdf
from tests.service.support.documents import make_report
from tests.service.support.live import LiveService
from tests.service.support.scenes import ADMIN_TOKEN

TOKEN = {"X-Admin-Token": ADMIN_TOKEN}
BROWSER = {**TOKEN, "Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
FORMULA = "=cmd|' /c calc'!a1@example.com"
GIFT: dict[str, Any] = {"provider": "comp", "amount": 0, "currency": "USD", "kind": "credit"}

MakeAudit = Callable[..., Audit]


def post(service: LiveService, path: str, **request: Any) -> requests.Response:
    headers = {**TOKEN, **request.pop("headers", {})}
    return requests.post(f"{service.url}{path}", headers=headers, timeout=60, **request)


def get(service: LiveService, path: str, **headers: str) -> requests.Response:
    return requests.get(f"{service.url}{path}", headers={**TOKEN, **headers}, timeout=60)


def overview(service: LiveService, query: str = "") -> dict[str, Any]:
    answer = get(service, f"/admin{query}", Accept="application/json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def message(answer: requests.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["message"])


def acts_on(service: LiveService, target: str) -> list[AdminAction]:
    with Session(service.engine) as session:
        query = text("SELECT id FROM admin_acts WHERE target = :target ORDER BY id")
        ids = session.scalars(query, {"target": target}).all()
        return [session.get_one(AdminAction, one) for one in ids]


def load(service: LiveService, audit_id: str) -> Audit:
    with Session(service.engine) as session:
        return session.get_one(Audit, audit_id)


@pytest.fixture
def make_audit(administered: LiveService) -> MakeAudit:
    """Adds an audit with its raw upload, and a frame where there is to be one."""
    account_id = administered.add_tenant().account_id

    def make(*, has_frame: bool = False, **fields: Any) -> Audit:
        audit_id = uuid4().hex
        audit = Audit(
            id=audit_id, account_id=account_id, source="upload", blob_key=f"raw/{audit_id}.jsonl"
        )
        keys = [audit.blob_key]
        if has_frame:
            audit.frame_key = f"frames/{audit_id}-1.parquet"
            keys.append(audit.frame_key)
        for name, value in fields.items():
            setattr(audit, name, value)
        for key in keys:
            put(administered.blobs / key)
        with administered.sessions() as session:
            session.add(audit)
            session.commit()
        return audit

    return make


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"{}\n")


# The page


def test_the_page_shows_what_runs_and_no_secret(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    tenant = administered.add_tenant()
    audit = make_audit(attempts=2, size_bytes=4711, created_at=utc_now() - timedelta(hours=1))
    done = make_audit(status="done")
    failed = make_audit(status="failed", error="The file is empty.")
    page = get(administered, "/admin", Accept="text/html")
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["Cache-Control"] == "no-store"
    assert audit.id in page.text
    # A row of its own, and on a phone a card.
    assert f'data-label="Audit {failed.id}">The file is empty.</td>' in page.text
    actions = (f"audits/{done.id}/rerun", f"audits/{done.id}/purge")
    for path in (*actions, f"accounts/{tenant.account_id}/sign-out"):
        assert f'action="/admin/{path}"' in page.text
    for secret in (tenant.key, tenant.token, ADMIN_TOKEN):
        assert secret not in page.text
    shown = overview(administered)
    line = next(one for one in shown["audits"] if one["id"] == audit.id)
    assert (line["status"], line["attempts"], line["source"]) == ("queued", 2, "upload")
    assert line["size_bytes"] == 4711
    assert 3_600 <= line["age_seconds"] < 3_700
    account = next(one for one in shown["accounts"] if one["id"] == tenant.account_id)
    assert (account["plan"], account["free_credits"]) == ("pro", 0)
    [waiting] = [one for one in shown["queue"] if one["kind"] == "upload"]
    assert waiting["number"] >= 1
    assert waiting["oldest_age_seconds"] >= 3_600
    queues = {"ingest", "uploads", "accounts", "call-store", "connections", "mail", "notices"}
    assert set(shown["wake_ups"]) == queues


def test_the_accounts_that_store_most_are_listed(administered: LiveService) -> None:
    tenant = administered.add_tenant()
    with administered.sessions() as session:
        sizes = dict.fromkeys(("report_bytes", "call_bytes", "spend_bytes"), 0)
        large = {"raw_bytes": 3 * 10**15, "measured_at": utc_now()}
        session.add(StoredData(account_id=tenant.account_id, **sizes, **large))
        session.commit()
    line = overview(administered)["stored_data"][0]
    assert (line["account_id"], line["total_bytes"]) == (tenant.account_id, 3 * 10**15)
    assert "3 PB" in get(administered, "/admin", Accept="text/html").text


def test_lists_go_on_page_by_page(administered: LiveService, make_audit: MakeAudit) -> None:
    made = {make_audit(status="done").id for _ in range(120)}
    seen: list[str] = []
    query = ""
    while True:
        shown = overview(administered, query)
        seen += [one["id"] for one in shown["audits"]]
        if "audits_page" not in shown["next_pages"]:
            break
        query = f"?audits_page={shown['next_pages']['audits_page']}"
    assert len(seen) == len(set(seen))
    assert made <= set(seen)


@each_case("query", ["?audits_page=0", "?events_page=x", "?acts_page=1001"])
def test_a_page_that_cannot_be_is_rejected(administered: LiveService, query: str) -> None:
    assert query[1:].partition("=")[0] in message(get(administered, f"/admin{query}"), 422)


# Purge


def test_a_purge_removes_the_upload_and_keeps_the_rest(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    audit = make_audit(status="done", has_frame=True)
    for is_repeat in (False, True):
        answer = post(administered, f"/admin/audits/{audit.id}/purge")
        assert answer.status_code == 200
        assert answer.json()["is_repeat"] is is_repeat
    assert not (administered.blobs / audit.blob_key).exists()
    assert (administered.blobs / str(audit.frame_key)).exists()
    assert load(administered, audit.id).raw_purged_at is not None
    acts = acts_on(administered, audit.id)
    assert [one.details["is_repeat"] for one in acts] == [False, True]
    assert {(one.act, one.via) for one in acts} == {("purge", "web")}
    assert acts[1].request_id == answer.headers["X-Request-Id"]


def test_a_purge_that_the_storage_fails_is_noted_and_done_by_the_next(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    audit = make_audit(status="done")
    raw = administered.blobs / "raw"
    raw.rename(administered.blobs / "elsewhere")
    raw.write_text("where a folder should be")
    answer = post(administered, f"/admin/audits/{audit.id}/purge")
    raw.unlink()
    (administered.blobs / "elsewhere").rename(raw)
    assert "Storage" in message(answer, 503)
    assert answer.headers["Retry-After"]
    # The row must not name what may be gone already.
    assert load(administered, audit.id).raw_purged_at is not None
    assert post(administered, f"/admin/audits/{audit.id}/purge").status_code == 200
    assert not (administered.blobs / audit.blob_key).exists()


@pytest.mark.parametrize("act", ["purge", "rerun"])
@pytest.mark.parametrize("status", ["queued", "processing"])
def test_an_audit_that_is_under_way_is_left_alone(
    administered: LiveService, make_audit: MakeAudit, act: str, status: str
) -> None:
    audit = make_audit(status=status)
    assert status in message(post(administered, f"/admin/audits/{audit.id}/{act}"), 422)
    assert (administered.blobs / audit.blob_key).exists()
    assert acts_on(administered, audit.id) == []


# Rerun and report


def test_a_rerun_queues_a_new_attempt(administered: LiveService, make_audit: MakeAudit) -> None:
    audit = make_audit(status="failed", attempts=3, error="given up", finished_at=utc_now())
    answer = post(administered, f"/admin/audits/{audit.id}/rerun")
    assert answer.status_code == 200
    assert answer.json() == {"audit_id": audit.id, "status": "queued"}
    row = load(administered, audit.id)
    assert (row.status, row.attempts, row.uncounted_attempts) == ("queued", 3, 3)
    assert (row.error, row.finished_at, row.valid_pct) == (None, None, None)
    message(post(administered, f"/admin/audits/{audit.id}/rerun"), 422)
    [act] = acts_on(administered, audit.id)
    assert (act.act, act.details) == ("rerun", {"source": "raw"})


def test_a_purged_or_lost_upload_is_run_again_from_its_frame_or_not_at_all(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    framed = make_audit(status="done", has_frame=True, raw_purged_at=utc_now())
    assert post(administered, f"/admin/audits/{framed.id}/rerun").status_code == 200
    assert acts_on(administered, framed.id)[0].details == {"source": "frames"}
    bare = make_audit(status="failed", raw_purged_at=utc_now())
    assert "can't be rerun" in message(post(administered, f"/admin/audits/{bare.id}/rerun"), 422)
    assert load(administered, bare.id).status == "failed"
    # A rerun of an upload that the storage has lost is rejected and keeps the report.
    audit = make_audit(status="done")
    (administered.blobs / audit.blob_key).unlink()
    assert "can't be rerun" in message(post(administered, f"/admin/audits/{audit.id}/rerun"), 422)
    assert load(administered, audit.id).status == "done"
    assert acts_on(administered, audit.id) == []


def test_of_many_reruns_at_once_one_is_accepted(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    audit = make_audit(status="done", attempts=1)
    path = f"/admin/audits/{audit.id}/rerun"
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: post(administered, path).status_code, range(20)))
    assert sorted(answers) == [200, *[422] * 19]
    assert len(acts_on(administered, audit.id)) == 1


def test_the_report_of_any_audit_is_downloaded_as_pdf(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    audit = make_audit(status="done", has_frame=True)
    path = f"/admin/audits/{audit.id}/report"
    assert "no report" in message(get(administered, path), 404)
    with administered.sessions() as session:
        session.add(ReportRow(audit_id=audit.id, document=make_report(methods=METHODS).to_json()))
        session.commit()
    answer = get(administered, path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/pdf"
    assert "attachment" in answer.headers["Content-Disposition"]
    pages = pypdf.PdfReader(io.BytesIO(answer.content)).pages
    links = [each["/A"]["/URI"] for page in pages for each in page.get("/Annots", [])]
    assert [link for link in links if link.endswith("/sample#methods")]
    assert [row.act for row in acts_on(administered, audit.id)] == ["read-report"]
    message(get(administered, f"/admin/audits/{uuid4().hex}/report"), 404)
    message(get(administered, f"/admin/audits/{'x' * 201}/report"), 422)


# Payments


def test_a_gift_is_granted_once_and_a_subscription_opened(administered: LiveService) -> None:
    tenant, other = administered.add_tenant(), administered.add_tenant()
    [email] = [
        one["email"] for one in overview(administered)["accounts"] if one["id"] == tenant.account_id
    ]
    gift = {**GIFT, "email": email, "reference": uuid4().hex}
    first, second = (
        post(administered, "/admin/payments/mark-paid", json=gift).json() for _ in range(2)
    )
    assert (first["is_repeat"], second["is_repeat"]) == (False, True)
    assert first["payment_id"] == second["payment_id"]
    assert first["account_id"] == tenant.account_id
    free = {each["id"]: each["free_credits"] for each in overview(administered)["accounts"]}
    assert (free[tenant.account_id], free[other.account_id]) == (1, 0)
    assert [one.details["is_repeat"] for one in acts_on(administered, email)] == [False, True]
    # A subscription is opened.
    tenant = administered.add_tenant(status=None)
    [email] = [
        one["email"] for one in overview(administered)["accounts"] if one["id"] == tenant.account_id
    ]
    paid = {"email": email, "provider": "invoice", "amount": "499.00", "currency": "eur"}
    paid |= {"reference": uuid4().hex, "kind": "subscription", "plan": "team"}
    assert post(administered, "/admin/payments/mark-paid", json=paid).status_code == 200
    [line] = [one for one in overview(administered)["accounts"] if one["id"] == tenant.account_id]
    assert line["plan"] == "team"
    # A payment without an account waits.
    gift = {**GIFT, "email": "later@example.com", "reference": uuid4().hex}
    answer = post(administered, "/admin/payments/mark-paid", json=gift)
    assert answer.json()["account_id"] is None


@each_case(
    ("change", "expected"),
    [
        ({"email": "nobody"}, "email must be an email address"),
        ({"email": None}, "email must be the payer's email address"),
        ({"provider": "Stripe Inc."}, "provider must be a lowercase name"),
        ({"amount": 5}, "amount must be 0 if the provider is comp"),
        ({"amount": -1}, "amount must be from 0"),
        ({"amount": "NaN"}, "amount must be a number"),
        ({"amount": "0.00001"}, "amount must have at most 4 decimal places"),
        ({"currency": "dollars"}, "currency must be a three-letter code"),
        ({"kind": "gift"}, "kind must be one of credit, subscription"),
        ({"kind": "subscription"}, "plan is required: pro or team"),
        ({"plan": "pro"}, "plan is only allowed if the kind is subscription"),
        ({"plan": "free", "kind": "subscription"}, "plan must be one of pro, team"),
        ({"reference": ""}, "reference must be 1 to 200 printable characters"),
        ({"reference": [1]}, "reference must be"),
        (
            {"note": "CANARY", "x y": 1},
            "unknown fields: note, a key that is not a field name. Send",
        ),
    ],
)
def test_a_bad_payment_gets_the_expected_values(
    administered: LiveService, change: dict[str, Any], expected: str
) -> None:
    gift = {**GIFT, "email": "a@example.com", "reference": uuid4().hex, **change}
    answer = post(administered, "/admin/payments/mark-paid", json=gift)
    assert expected in message(answer, 422)


@each_case("name", ["email", "provider", "reference", "amount"])
def test_each_field_that_is_needed_is_named(administered: LiveService, name: str) -> None:
    gift = {**GIFT, "email": "a@example.com", "reference": uuid4().hex}
    del gift[name]
    answer = post(administered, "/admin/payments/mark-paid", json=gift)
    assert f"{name} is required" in message(answer, 422)


@each_case("body", [b"", b"{", b"[]", b"5", b'{"email": NaN}', b"\xff"])
def test_a_body_that_is_not_a_json_object_is_rejected_with_a_reason(
    administered: LiveService, body: bytes
) -> None:
    answer = post(administered, "/admin/payments/mark-paid", data=body)
    assert "JSON object" in message(answer, 422)


def test_a_rejected_payment_leaves_nothing(administered: LiveService) -> None:
    gift = {**GIFT, "email": "refused@example.com", "reference": "refused-1", "amount": 3}
    post(administered, "/admin/payments/mark-paid", json=gift)
    assert acts_on(administered, "refused@example.com") == []
    with Session(administered.engine) as session:
        assert session.query(Payment).filter_by(reference="refused-1").count() == 0


# Forms


def test_the_pages_own_forms_act_and_answer_with_a_page(
    administered: LiveService, make_audit: MakeAudit
) -> None:
    audit, browser = make_audit(status="done"), requests.Session()
    page = browser.get(f"{administered.url}/admin", headers=BROWSER, timeout=60)
    # The Secure cookie travels over plain HTTP only where browsers trust the host.
    for cookie in browser.cookies:
        cookie.secure = False
    [token, *_] = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)
    fields = {"csrf_token": token}
    url = f"{administered.url}/admin/audits/{audit.id}/purge"
    page = browser.post(url, data=fields, headers=BROWSER, timeout=60)
    assert page.status_code == 200
    assert "The raw upload was deleted." in page.text
    fields |= {"email": "form@example.com", "provider": "comp", "reference": uuid4().hex}
    fields |= {"amount": "0", "currency": "USD", "kind": "credit", "plan": ""}
    url = f"{administered.url}/admin/payments/mark-paid"
    assert browser.post(url, data=fields, headers=BROWSER, timeout=60).status_code == 200


@each_case(
    ("headers", "fields"),
    [
        ({}, {}),
        ({}, {"csrf_token": "wrong"}),
        ({"Origin": "https://evil.example"}, None),
        ({"Sec-Fetch-Site": "cross-site"}, None),
        ({"Sec-Fetch-Site": "same-site", "Origin": "null"}, None),
    ],
)
def test_requests_from_another_site_are_rejected(
    administered: LiveService,
    make_audit: MakeAudit,
    headers: dict[str, str],
    fields: dict[str, str] | None,
) -> None:
    """`None` is no form at all, which needs no token of one."""
    audit = make_audit(status="done")
    data = None if fields is None else {"x": "y", **fields}
    answer = post(administered, f"/admin/audits/{audit.id}/purge", headers=headers, data=data)
    message(answer, 403)
    assert (administered.blobs / audit.blob_key).exists()


# Early access, and the log of acts


def test_the_early_access_list_is_exported_with_inert_cells(administered: LiveService) -> None:
    with administered.sessions() as session:
        session.merge(EarlyAccess(email=FORMULA))
        session.commit()
    answer = get(administered, "/admin/early-access.csv")
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert "attachment" in answer.headers["Content-Disposition"]
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert rows[0] == ["email", "asked_at"]
    assert f"'{FORMULA}" in [row[0] for row in rows]
    assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
    assert acts_on(administered, "early_access")[-1].act == "early-access-export"


@each_case(
    "statement",
    [
        "UPDATE admin_acts SET target = 'x'",
        "DELETE FROM admin_acts",
        "TRUNCATE admin_acts",
        "TRUNCATE admin_acts CASCADE",
    ],
)
def test_the_log_of_admin_actions_is_append_only(administered: LiveService, statement: str) -> None:
    """For the service's role, and even for the tables' owner."""
    get(administered, "/admin/early-access.csv")
    url = administered.engine.url.render_as_string(hide_password=False)
    for address, reason in ((url, "permission denied"), (as_owner(url), "append-only")):
        engine = create_engine(address)
        with pytest.raises(DBAPIError, match=reason), engine.begin() as connection:
            connection.execute(text(statement))
        engine.dispose()
