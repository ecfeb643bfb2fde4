"""Reports whose prices or assumptions have changed since offer to be recalculated."""

import json

import msgspec
import pytest
from flask import Flask
from flask.testing import FlaskClient

import detectors
from detectors.contract import Report
from service.models import Audit
from service.models.audits.audit_settings import save_assumptions, save_price_terms
from service.models.base import utc_now
from service.operations.price_book import VERSION, save_update
from tests.detectors.prices.published import make_providers
from tests.service.support.documents import make_report
from tests.service.support.scenes import Sessions, record
from tests.service.support.uploads import Person
from tests.service.web.pages.forms import load_form
from tests.service.web.pages.scenes import add_finding, add_run, add_spending_run
from tests.service.web.pages.words import words

OFFER = "have changed since this report."


def audited() -> Report:
    """A real report: only those have a fingerprint of their prices."""
    report = detectors.audit([record()])
    return msgspec.json.decode(report.to_json(), type=Report)


def page(client: FlaskClient, person: Person, audit_id: str) -> str:
    return words(client.get(f"/audits/{audit_id}", headers=person.headers))


def test_a_report_with_the_prices_and_assumptions_of_today_offers_nothing(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    assert OFFER not in page(client, person, add_run(sessions, person.account_id, audited()))


def test_changed_terms_are_named_if_they_concern_the_report(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    report = audited()
    (model,) = report.spend_by_model
    audit_id = add_run(sessions, person.account_id, report)
    for share, other in (("0.5", "groq" if model.provider != "groq" else "openai"),):
        with sessions() as session:
            save_price_terms(session, person.account_id, f"[discounts]\n{other} = {share}")
            session.commit()
        assert OFFER not in page(client, person, audit_id)
    with sessions() as session:
        save_price_terms(session, person.account_id, f"[discounts]\n{model.provider} = 0.5")
        save_assumptions(session, person.account_id, {"d2_cache_seconds": 60})
        session.commit()
    assert f"Prices and assumptions {OFFER}" in page(client, person, audit_id)


def test_an_update_of_the_price_book_is_named_if_it_concerns_the_report(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id, audited())
    assert OFFER not in page(client, person, audit_id)
    stored = {"version": VERSION, "as_of": "2026-11-22", "providers": make_providers(7.0)}
    with sessions() as session:
        save_update(session.connection(), json.dumps(stored).encode())
        session.commit()
    assert f"Prices {OFFER}" in page(client, person, audit_id)


def test_its_owner_recalculates_it_without_a_credit(
    client: FlaskClient, app: Flask, person: Person, sessions: Sessions
) -> None:
    audit_id = add_run(sessions, person.account_id, make_report(), attempts=1)
    with sessions() as session:
        save_assumptions(session, person.account_id, {"d2_cache_seconds": 60})
        session.commit()
        app.extensions["blobs"].put(session.get_one(Audit, audit_id).blob_key, b"")
    form = load_form(client, f"/audits/{audit_id}", "recalculate", person.headers)
    sent = {"headers": form.headers, "data": {"csrf_token": form.token}}
    answer = client.post(form.action, **sent)
    assert (answer.status_code, answer.location) == (303, f"/audits/{audit_id}")
    assert client.post(form.action, **sent).status_code == 422  # it waits already
    with sessions() as session:
        audit = session.get_one(Audit, audit_id)
        assert (audit.status, audit.attempts, audit.uncounted_attempts) == ("queued", 1, 1)


def test_a_recalculation_that_failed_says_so_above_the_earlier_report(
    client: FlaskClient, app: Flask, person: Person, sessions: Sessions
) -> None:
    reason = "The audit ended unexpectedly in each of its 3 attempts and was given up."
    audit_id = add_run(sessions, person.account_id, make_report(), error=reason)
    shown = page(client, person, audit_id)
    assert f"couldn't recalculate this report, so you see the earlier result. {reason}" in shown
    assert "Where the money goes" in shown
    form = load_form(client, f"/audits/{audit_id}", "recalculate", person.headers)
    with sessions() as session:
        app.extensions["blobs"].put(session.get_one(Audit, audit_id).blob_key, b"")
    sent = {"headers": form.headers, "data": {"csrf_token": form.token}}
    assert client.post(form.action, **sent).status_code == 303
    with sessions() as session:
        assert session.get_one(Audit, audit_id).error is None


def test_a_failed_recalculation_that_cannot_be_repeated_offers_nothing(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    fields = {"raw_purged_at": "2026-01-01T00:00:00Z", "frame_key": None, "error": "Gone."}
    audit_id = add_run(sessions, person.account_id, make_report(), **fields)
    answer = client.get(f"/audits/{audit_id}", headers=person.headers)
    assert "the earlier result. Gone." in words(answer)
    assert "/recalculate" not in answer.text


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_the_earlier_report_stays_while_it_is_recalculated(
    client: FlaskClient, person: Person, sessions: Sessions, status: str
) -> None:
    fields = {"status": status, "frame_key": "frames/x-1.parquet"}
    audit_id = add_spending_run(sessions, person.account_id, utc_now(), 200, 48, **fields)
    add_finding(sessions, audit_id, 1, 4_800)
    dashboard = words(client.get("/dashboard", headers=person.headers))
    assert "$4,800" in dashboard
    assert "you can open the earlier report as PDF" in page(client, person, audit_id)
    new_id = add_run(sessions, person.account_id, status=status)
    assert "earlier report" not in page(client, person, new_id)


def test_records_that_are_gone_are_not_offered(
    client: FlaskClient, person: Person, sessions: Sessions
) -> None:
    with sessions() as session:
        save_assumptions(session, person.account_id, {"d2_cache_seconds": 60})
        session.commit()
    fields = {"raw_purged_at": "2026-01-01T00:00:00Z", "frame_key": None}
    audit_id = add_run(sessions, person.account_id, make_report(), **fields)
    assert OFFER not in page(client, person, audit_id)
