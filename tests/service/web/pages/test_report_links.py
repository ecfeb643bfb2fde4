"""Report links can be listed, revoked and renewed; existing ones keep working."""

import re
from datetime import timedelta

import pytest
import time_machine
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from service.core.tokens import sign_report
from service.models import Account
from service.models.base import utc_now
from tests.service.support.browser import Browser, words_of
from tests.service.support.documents import make_report
from tests.service.support.scenes import SECRET_KEY
from tests.service.web.pages.scenes import add_run
from tests.worker.support.promises import Note, always_in_full

LINKS = "/settings/report-links"
FORMS = ("", "/pdf", "/json", "/findings.csv")


@pytest.fixture
def audit_id(ada: Browser, sessions: "sessionmaker[Session]") -> str:
    return _add(ada, sessions)


def _add(browser: Browser, sessions: "sessionmaker[Session]") -> str:
    # A short one, for a PDF of the sample report takes half a second.
    return add_run(sessions, browser.account_id, make_report())


def _shared(browser: Browser, audit_id: str) -> str:
    """The path of the link that the owner's page offers."""
    page = browser.get(f"/audits/{audit_id}")
    [path] = set(re.findall(r"http://localhost:8000(/r/[\w.-]+)", page))
    return str(path)


def _statuses(app: Flask, path: str) -> list[int]:
    reader = app.test_client()
    return [reader.get(f"{path}{form}").status_code for form in FORMS]


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_a_revoked_link_is_dead_in_every_form_and_a_renewed_one_is_another(
    app: Flask, ada: Browser, audit_id: str, note: Note
) -> None:
    earlier = f"/r/{sign_report(SECRET_KEY, audit_id)}"  # of the release before
    shared = _shared(ada, audit_id)
    lost = sum(_statuses(app, path) != [200] * 4 for path in (earlier, shared))
    assert ada.post(LINKS, f"{LINKS}/{audit_id}/revoke").status_code == 303
    lost += sum(_statuses(app, path) != [404] * 4 for path in (earlier, shared))
    lost += _statuses(app, f"/r/{sign_report(SECRET_KEY, audit_id)}") != [404] * 4
    assert ada.post(LINKS, f"{LINKS}/{audit_id}/renew").status_code == 303
    renewed = _shared(ada, audit_id)
    lost += _statuses(app, renewed) != [200] * 4
    lost += sum(_statuses(app, path) != [404] * 4 for path in (earlier, shared))
    note("41 revoked and renewed report links answer 404 at once", 8 * len(FORMS), lost)


def test_the_link_is_the_same_whenever_it_is_shown_and_expires_when_the_page_says(
    app: Flask, ada: Browser, audit_id: str
) -> None:
    shared = _shared(ada, audit_id)
    with time_machine.travel(utc_now() + timedelta(days=3), tick=False):
        assert _shared(ada, audit_id) == shared
    with time_machine.travel(utc_now() + timedelta(days=30.1), tick=False):
        assert _statuses(app, shared) == [404] * 4


def test_the_list_shows_expiry_and_how_often_others_opened_it(
    app: Flask, ada: Browser, audit_id: str
) -> None:
    shared, reader = _shared(ada, audit_id), app.test_client()
    for _ in range(3):
        reader.get(shared)
    reader.head(shared)
    reader.get(f"{shared}?finding=d1-001")
    reader.get(shared, headers={"Sec-Purpose": "prefetch"})
    ada.get(shared)
    words = words_of(ada.get(LINKS))
    assert "3 times" in words
    assert "Active" in words
    assert f"{utc_now() + timedelta(days=30):%b %-d, %Y}" in words
    assert "It was opened 3 times." in words_of(ada.get(f"/audits/{audit_id}"))


def test_a_link_of_the_release_before_is_listed_once_it_is_opened(
    app: Flask, ada: Browser, audit_id: str
) -> None:
    assert "No report links yet" in ada.get(LINKS)
    app.test_client().get(f"/r/{sign_report(SECRET_KEY, audit_id)}")
    assert "1 time" in words_of(ada.get(LINKS))


def test_the_owner_reads_on_without_a_link(ada: Browser, audit_id: str) -> None:
    ada.get(f"/audits/{audit_id}")
    ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
    page = ada.get(f"/audits/{audit_id}")
    assert "You revoked the link to this report" in page
    assert "/r/" not in page
    for form in FORMS:
        assert ada.client.get(f"/audits/{audit_id}{form}").status_code == 200


def test_all_links_are_revoked_at_once_those_without_a_row_too(
    app: Flask, ada: Browser, eve: Browser, sessions: "sessionmaker[Session]"
) -> None:
    mine, theirs = [_add(ada, sessions) for _ in range(3)], _add(eve, sessions)
    ada.get(f"/audits/{mine[0]}")
    assert ada.post(LINKS, f"{LINKS}/revoke-all").status_code == 303
    for audit_id in mine:
        assert _statuses(app, f"/r/{sign_report(SECRET_KEY, audit_id)}") == [404] * 4
    assert _statuses(app, f"/r/{sign_report(SECRET_KEY, theirs)}") == [200] * 4


def test_nobody_elses_link_is_revoked_or_renewed(
    app: Flask, ada: Browser, eve: Browser, audit_id: str
) -> None:
    shared = _shared(ada, audit_id)
    for change in ("revoke", "renew"):
        assert eve.act("/settings", f"{LINKS}/{audit_id}/{change}").status_code == 404
    assert _statuses(app, shared) == [200] * 4
    assert "No report links yet" in eve.get(LINKS)


@pytest.mark.parametrize("generation", [1, 2, -1, 10**12])
def test_a_generation_that_was_never_issued_is_not_found(
    app: Flask, ada: Browser, audit_id: str, generation: int
) -> None:
    token = sign_report(SECRET_KEY, audit_id, generation)
    assert _statuses(app, f"/r/{token}") == [404] * 4


def test_deleting_the_account_deletes_its_links(
    ada: Browser, audit_id: str, db_session: Session
) -> None:
    _shared(ada, audit_id)
    assert ada.post("/settings/delete", "/settings/delete", email=ada.email).status_code == 303
    assert db_session.scalars(select(Account)).all() == []


def test_a_revoked_link_has_no_expiry(ada: Browser, audit_id: str) -> None:
    ada.get(f"/audits/{audit_id}")
    assert 'data-label="Expires"' in ada.get(LINKS)
    ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
    assert 'data-label="Expires"' not in ada.get(LINKS)
