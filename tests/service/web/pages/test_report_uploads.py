"""/upload?kind=report: a provider's report is stored, replaced by its days, and never audited."""

import io
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.models import (
    Audit,
    ProviderConnection,
    ReportedCost,
    ReportedUsage,
)
from service.models.calls.daily_spend import SpendRow
from service.operations.connections.reconciliation import reconcile
from tests.cases import each_case
from tests.service.connections.exports import PERSON, SAMPLES
from tests.service.support.browser import Browser, words_of

PAGE = "/upload?kind=report"
MONTH = date(2026, 9, 1)


def _upload(browser: Browser, text: str, address: str = PAGE, **more: Any) -> Any:
    page = browser.get(address)
    token = page.partition('name="csrf_token" value="')[2].partition('"')[0]
    fields = {"csrf_token": token, "file": (io.BytesIO(text.encode()), "report.csv"), **more}
    return browser.client.post(address, data=fields, content_type="multipart/form-data")


def _billed(session: Session) -> Decimal:
    session.expire_all()
    return session.scalars(select(func.sum(ReportedCost.amount))).one() or Decimal(0)


def test_the_page_says_what_it_reads(ada: Browser) -> None:
    page = words_of(ada.get(PAGE))
    assert "OpenAI's costs by day" in page
    assert "A FOCUS export of Azure" in page
    assert "Upload a report" in words_of(ada.get("/bill"))


@pytest.mark.parametrize("name", ["openai costs", "anthropic usage", "cursor events", "aws report"])
def test_a_report_is_stored_without_an_audit_a_call_or_a_person(
    ada: Browser, db_session: Session, name: str
) -> None:
    sample = SAMPLES[name]
    answer = _upload(ada, sample.text)
    assert answer.status_code == 303, answer.get_data(as_text=True)
    assert _billed(db_session) == sample.billed
    prompt = select(func.sum(ReportedUsage.prompt_tokens))
    assert (db_session.scalar(prompt) or 0) == sample.prompt
    assert db_session.scalars(select(Audit)).all() == []
    assert db_session.scalars(select(SpendRow)).all() == []
    row = db_session.scalars(select(ProviderConnection)).one()
    assert (row.provider, row.key, row.is_active) == (sample.provider, "", False)
    page = words_of(ada.get(answer.headers["Location"]))
    assert sample.report in page
    assert "Uploaded" in page
    assert "Uploaded" in words_of(ada.get("/settings/connections"))
    for table in (ReportedCost, ReportedUsage):
        stored = db_session.execute(select(*table.__table__.columns)).all()
        assert PERSON not in str(stored)


def test_a_report_replaces_its_days_and_no_others(ada: Browser, db_session: Session) -> None:
    text = SAMPLES["anthropic costs"].text
    _upload(ada, text)
    _upload(ada, text)
    assert _billed(db_session) == Decimal("0.55")
    _upload(ada, "\n".join(text.replace("0.05,0.05", "0.07,0.07").splitlines()[:2]))
    assert _billed(db_session) == Decimal("0.57")
    _upload(ada, SAMPLES["anthropic usage"].text)
    assert _billed(db_session) == Decimal("0.57")
    assert len(db_session.scalars(select(ProviderConnection)).all()) == 1


def test_the_bill_has_it_and_what_was_pulled_of_a_day_wins(
    ada: Browser, db_session: Session
) -> None:
    _upload(ada, SAMPLES["anthropic costs"].text)
    held = db_session.scalars(select(ProviderConnection)).one()
    found = reconcile(db_session.connection(), held.account_id, "anthropic", MONTH)
    assert found.billed_usd == Decimal("0.55")
    assert "Anthropic" in words_of(ada.get("/bill"))
    pulled = ProviderConnection(account_id=held.account_id, provider="anthropic", key="x")
    db_session.add(pulled)
    db_session.flush()
    for offset in (0, 40):
        day = datetime.combine(MONTH, datetime.min.time()).astimezone() + timedelta(days=offset)
        labels = {"project_id": "", "key_id": "", "model": "", "line_item": "", "kind": "tokens"}
        owner = {"account_id": held.account_id, "connection_id": pulled.id, "report": "costs"}
        paid = {"amount": Decimal(8), "currency": "USD", "bucket_at": day}
        day_of = {"day": MONTH + timedelta(days=offset)}
        db_session.add(ReportedCost(**owner, **labels, **paid, **day_of))
    db_session.flush()
    found = reconcile(db_session.connection(), held.account_id, "anthropic", MONTH)
    assert found.billed_usd == Decimal(8) + Decimal("0.5")


def test_costs_alone_are_compared_with_the_calls(ada: Browser, db_session: Session) -> None:
    _upload(ada, SAMPLES["focus of aws"].text)
    held = db_session.scalars(select(ProviderConnection)).one()
    found = reconcile(db_session.connection(), held.account_id, "aws", MONTH)
    assert found.billed_usd == Decimal("1.005")
    assert {part.kind: part.usd for part in found.parts} == {
        "credits": Decimal("-0.25"),
        "unexplained": Decimal("1.25"),
        "rounding": Decimal("0.005"),
    }


@each_case("text", ["ts,provider\n1,2\n", "", "\x00\x01"])
def test_what_is_no_report_is_refused_in_the_form(
    ada: Browser, db_session: Session, text: str
) -> None:
    answer = _upload(ada, text)
    assert answer.status_code == 422
    assert "Nothing was stored" in words_of(answer.get_data(as_text=True))
    assert db_session.scalars(select(ProviderConnection)).all() == []


def test_reports_can_be_deleted_and_never_pulled(ada: Browser, db_session: Session) -> None:
    page = _upload(ada, SAMPLES["anthropic costs"].text).headers["Location"]
    assert "New admin key" not in ada.get(page)
    assert ada.act(page, f"{page}/key", key="sk-ant-admin-x").status_code == 422
    assert ada.post(page, f"{page}/remove", data="keep").status_code == 303
    assert db_session.scalars(select(ProviderConnection)).all() == []
    assert _billed(db_session) == 0
