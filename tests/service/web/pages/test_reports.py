"""/r/<token>: the report page behind a signed link."""

import random
import re
import string
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from detectors.contract import (
    InvalidRows,
    Report,
    SpendByModel,
    UnpricedModel,
)
from detectors.wording.figures import percent, usd, whole_usd
from service.config import Config
from service.core.tokens import sign_report
from service.models import Audit, ReportRow
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.documents import make_finding, make_report, make_summary
from tests.service.support.scenes import Tenant, error_of
from tests.worker.support.promises import Note, at_both_scales, scaled

SIGNED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def add_report(db_session: Session, tenant: Tenant) -> Callable[[Report | None], str]:
    """Store an audit with this report, or without one; returns its id."""

    def add(report: Report | None, status: str = "done", error: str | None = None) -> str:
        audit = Audit(
            account_id=tenant.account_id,
            source="ingest",
            blob_key="raw/x.jsonl",
            status=status,
            error=error,
        )
        db_session.add(audit)
        db_session.flush()
        if report is not None:
            db_session.add(ReportRow(audit_id=audit.id, document=report.to_json()))
        db_session.commit()
        return audit.id

    return add


AddReport = Callable[..., str]


def _get(client: FlaskClient, config: Config, audit_id: str) -> TestResponse:
    return client.get(f"/r/{sign_report(config.secret_key, audit_id)}")


def _text(response: TestResponse) -> str:
    """The page's words, as a reader sees them."""
    return " ".join(re.sub(r"<[^>]+>", " ", response.get_data(as_text=True)).split())


def test_the_page_prints_the_report(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    response = _get(client, config, add_report(make_report()))
    assert response.status_code == 200
    assert response.mimetype == "text/html"
    page = _text(response)
    for words in (
        "You spend about $2,645/month. About $827 of it (31.2%) is avoidable.",
        "Based on 4,800 calls (Feb 1, 2026 to Feb 14, 2026, UTC)",
        "$1,234.56 in 14 days, projected to 30 days.",
        "Fix this first",
        "Oversized model on support-bot",
        "support-bot · gpt-4o",
        "$813",
        "Try gpt-4o-mini on this route.",
        "Estimated based on the assumption stated in the fix",
        "$900.00",
        "house-model",
        "prompt_tokens must be a whole number",
        "genai-prices, version 0.2.3",
        "3 smaller findings under $0.01/month not listed.",
    ):
        assert words in page, words


def test_the_page_says_what_a_report_lacks(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    page = _text(_get(client, config, add_report(make_report(audit=make_summary(valid_pct=94.9)))))
    assert "Only 94.9% of the rows could be read" in page
    page = _text(_get(client, config, add_report(make_report(audit=make_summary(valid_pct=95.0)))))
    assert "of the rows could be read. The figures" not in page
    # List price cost is not called a bill.
    page = _text(
        _get(client, config, add_report(make_report(audit=make_summary(equiv_spend=True))))
    )
    assert "not a bill" in page
    # A finding without dollars claims none.
    silent = make_finding(1, confidence="INFORMATIONAL", monthly_cost_impact_usd=Decimal(0))
    page = _text(_get(client, config, add_report(make_report(findings=(silent,)))))
    assert "Worth checking" in page
    assert "Oversized model on 1 route" in page


def test_an_empty_report_still_reads_well(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    nothing = make_summary(
        records=0, first_call=None, last_call=None, observed_days=1, below_floor=0,
        total_spend_usd=Decimal(0), projected_spend_usd=Decimal(0), savings_pct=0.0,
        projected_savings_usd=Decimal(0), echoes_dropped=0, valid_pct=100.0,
    )  # fmt: skip
    empty = make_report(
        audit=nothing,
        findings=(),
        spend_by_model=(),
        unpriced=(),
        invalid_rows=InvalidRows(count=0, reasons={}, first=()),
    )
    page = _text(_get(client, config, add_report(empty)))
    assert "We found no avoidable spend in these calls." in page
    assert "No calls could be priced" in page
    assert "There were no calls to audit" in page


def test_a_page_of_thousands_of_findings_stays_one_page(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    many = tuple(make_finding(rank) for rank in range(1, 3001))
    response = _get(client, config, add_report(make_report(findings=many)))
    assert "These are the 400 largest of 3,000" in _text(response)
    assert len(response.data) < 150_000


def test_markup_in_labels_stays_text(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    finding = make_finding(1, route=MARKUP, model=MARKUP, fix=MARKUP, severity=MARKUP)
    models = (SpendByModel(provider=MARKUP, model=MARKUP, calls=1, spend_usd=Decimal(1)),)
    unpriced = (UnpricedModel(provider=MARKUP, model=MARKUP, calls=1),)
    report = make_report(findings=(finding,), spend_by_model=models, unpriced=unpriced)
    page = _get(client, config, add_report(report)).data
    assert MARKUP.encode() not in page
    assert b"alert(1)" in page


def test_an_audit_without_a_report_says_why(
    client: FlaskClient, config: Config, add_report: AddReport, db_session: Session
) -> None:
    response = _get(client, config, add_report(None, status="queued"))
    assert response.status_code == 200
    assert "not ready yet" in _text(response)
    # A report that was deleted says so.
    audit_id = add_report(None, status="done")
    db_session.get_one(Audit, audit_id).report_deleted_at = utc_now()
    db_session.commit()
    response = _get(client, config, audit_id)
    assert response.status_code == 200
    assert "This report was deleted" in _text(response)
    # A failed audit says why.
    response = _get(client, config, add_report(None, status="failed", error="The log broke off."))
    assert response.status_code == 200
    assert "The log broke off." in _text(response)


def test_the_page_leaks_nothing_through_its_headers(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    for response in (_get(client, config, add_report(make_report())), client.get("/r/nothing")):
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert "noindex" in response.headers["X-Robots-Tag"]


@each_case(("seconds", "status"), [(-1, 200), (0, 200), (1, 404)])
def test_a_link_lives_thirty_days_to_the_second(
    client: FlaskClient, config: Config, add_report: AddReport, seconds: int, status: int
) -> None:
    audit_id = add_report(make_report())
    with time_machine.travel(SIGNED_AT, tick=False):
        token = sign_report(config.secret_key, audit_id)
    with time_machine.travel(SIGNED_AT + timedelta(days=30, seconds=seconds), tick=False):
        assert client.get(f"/r/{token}").status_code == status


def test_a_token_of_another_time_secret_or_audit_is_not_found(
    client: FlaskClient, config: Config, add_report: AddReport
) -> None:
    with time_machine.travel(datetime.now(UTC) + timedelta(days=1), tick=False):
        token = sign_report(config.secret_key, add_report(make_report()))
    assert client.get(f"/r/{token}").status_code == 404
    # A token of another secret is not found.
    token = sign_report("another secret of 32 characters or so", add_report(make_report()))
    assert client.get(f"/r/{token}").status_code == 404
    # A token of a deleted audit is not found.
    assert _get(client, config, "0" * 32).status_code == 404


@at_both_scales
def test_a_thousand_mutations_of_a_token_are_not_found(
    client: FlaskClient, config: Config, add_report: AddReport, note: Note, share: float
) -> None:
    token = sign_report(config.secret_key, add_report(make_report()))
    assert client.get(f"/r/{token}").status_code == 200
    mutations = _mutations(token, scaled(1000, share))
    pages = {_without_id(client.get(f"/r/{one}")) for one in mutations}
    # All the same page: it says nothing about what was wrong, or whether the audit exists.
    assert pages == {_without_id(client.get("/r/nothing"))}
    assert next(iter(pages))[0] == 404
    note("30 mutations of a report link are not found", len(mutations), 0)


def _mutations(token: str, count: int) -> set[str]:
    """Tokens one edit away; every other character at the malleable last place is among them."""
    letters = string.ascii_letters + string.digits + "-_.=~"
    chosen = random.Random(0)
    found = {token[:-1] + letter for letter in letters}
    found |= {token + "=", token + "A", token[:-1], token.upper(), token.lower(), token[::-1]}
    while len(found - {token}) < count:
        at, letter = chosen.randrange(len(token)), chosen.choice(letters)
        edit = chosen.choice((letter, letter + token[at], ""))
        found.add(token[:at] + edit + token[at + 1 :])
    return found - {token}


def _without_id(response: TestResponse) -> tuple[int, bytes]:
    request_id = response.headers["X-Request-Id"].encode()
    return response.status_code, response.data.replace(request_id, b"")


@each_case("token", ["a" * 201, "a%00b", "a%0Ab", "a%C2%85b"])
def test_what_cannot_be_a_token_is_invalid(client: FlaskClient, token: str) -> None:
    accept = {"Accept": "application/json"}
    for rest in ("", "/pdf", "/json", "/findings.csv"):
        error = client.get(f"/r/{token}{rest}", headers=accept)
        assert error_of(error, 422, "validation_error") == "Invalid report link."
    assert client.get(f"/r/{'a' * 200}").status_code == 404


def test_the_links_days_are_a_setting(
    share_app: Callable[..., Flask], config: Config, add_report: AddReport
) -> None:
    client = share_app(report_link_days=1).test_client()
    with time_machine.travel(datetime.now(UTC) - timedelta(days=2), tick=False):
        token = sign_report(config.secret_key, add_report(make_report()))
    assert client.get(f"/r/{token}").status_code == 404


@each_case(
    ("amount", "written"),
    [
        ("1234567.891", "$1,234,567.89"),
        ("0.01", "$0.01"),
        ("0.004", "$0.004"),
        ("0.00123", "$0.0012"),
        ("0.00001", "< $0.0001"),
        ("0", "$0.00"),
    ],
)
def test_dollars_are_written_to_the_cent_unless_smaller(amount: str, written: str) -> None:
    assert usd(Decimal(amount)) == written


def test_headlines_leave_out_cents_and_empty_decimals() -> None:
    assert whole_usd(Decimal("2645.49")) == "$2,645"
    assert whole_usd(Decimal("9.5")) == "$9.50"
    assert percent(31.0) == "31%"
    assert percent(0.04) == "< 0.1%"
    assert percent(0.0) == "0%"
