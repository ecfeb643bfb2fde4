"""Report links can be listed, revoked and renewed; existing ones keep working."""

import re
from collections.abc import Callable
from datetime import timedelta
from urllib.parse import quote

import pytest
import time_machine
from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from service.core.tokens import sign_report
from service.models import ReportLink, WebSession
from service.models.base import utc_now
from tests.cases import each_case
from tests.service.support.access_table import TABLE
from tests.service.support.access_world import ask, make_world
from tests.service.support.browser import Browser, words_of
from tests.service.support.documents import make_report
from tests.service.support.scenes import ADMIN_TOKEN, SECRET_KEY, Sessions
from tests.service.web.pages.scenes import add_run
from tests.worker.support.promises import Note, always_in_full, at_a_quarter

LINKS = "/settings/report-links"
FORMS = ("", "/pdf", "/json", "/findings.csv")


@pytest.fixture
def audit_id(ada: Browser, sessions: Sessions) -> str:
    return _add(ada, sessions)


def _add(browser: Browser, sessions: Sessions) -> str:
    # A short one, for a PDF of the sample report takes half a second.
    return add_run(sessions, browser.account_id, make_report())


def _shared(browser: Browser, audit_id: str) -> str:
    """The path of the link that Share shows."""
    return _link_in(browser.post(f"/audits/{audit_id}", f"{LINKS}/{audit_id}/share"))


def _link_in(answer: TestResponse) -> str:
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    [path] = set(re.findall(r"http://localhost:8000(/r/[\w.-]+)", answer.get_data(as_text=True)))
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
    renewed = _link_in(ada.post(LINKS, f"{LINKS}/{audit_id}/renew"))
    lost += _statuses(app, renewed) != [200] * 4
    lost += sum(_statuses(app, path) != [404] * 4 for path in (earlier, shared))
    note("41 revoked and renewed report links answer 404 at once", 8 * len(FORMS), lost)


def test_each_link_works_for_thirty_days_or_until_all_are_revoked(
    app: Flask, ada: Browser, audit_id: str, db_session: Session
) -> None:
    first, started = _shared(ada, audit_id), utc_now()
    with time_machine.travel(started + timedelta(days=3), tick=False) as clock:
        db_session.execute(update(WebSession).values(created_at=utc_now()))
        db_session.commit()
        second = _shared(ada, audit_id)
        assert second != first
        for days, working in ((29.9, [first, second]), (30.1, [second]), (33.1, [])):
            clock.move_to(started + timedelta(days=days))
            found = [path for path in (first, second) if _statuses(app, path) == [200] * 4]
            assert found == working
        clock.move_to(started + timedelta(days=4))
        ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
        assert [_statuses(app, path) for path in (first, second)] == [[404] * 4] * 2


def test_after_a_revocation_only_new_links_work(app: Flask, ada: Browser, audit_id: str) -> None:
    first = _shared(ada, audit_id)
    ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
    assert _statuses(app, _shared(ada, audit_id)) == [200] * 4
    assert _statuses(app, first) == [404] * 4


@pytest.mark.parametrize("action", ["share", "renew"])
def test_an_old_session_gets_no_link(
    ada: Browser, audit_id: str, db_session: Session, action: str
) -> None:
    page = {"share": f"/audits/{audit_id}", "renew": LINKS}[action]
    _shared(ada, audit_id)
    before = db_session.scalars(select(ReportLink)).one().issued_at
    db_session.execute(update(WebSession).values(created_at=utc_now() - timedelta(hours=3)))
    db_session.commit()
    answer = ada.post(page, f"{LINKS}/{audit_id}/{action}")
    assert answer.status_code == 303
    anchor = "%23share" if action == "share" else ""
    assert answer.location == f"/sign-in/confirm?next={quote(page)}{anchor}"
    assert db_session.scalars(select(ReportLink)).one().issued_at == before


@at_a_quarter
def test_no_page_and_no_api_response_has_a_link(
    share: float, share_app: Callable[..., Flask], sessions: Sessions
) -> None:
    """To whichever credential; the forms that show one are above."""
    app, world = share_app(admin_token=ADMIN_TOKEN), make_world(sessions)
    client, token = app.test_client(use_cookies=False), re.compile(rb"/r/[\w-]+\.[\w-]+\.")
    read = 0
    for route in list(TABLE)[:: round(1 / share)]:
        for caller in world.callers.values() if route[0] == "GET" else ():
            if not route[1].startswith("/r/"):
                response = ask(client, route, caller, world.ids)
                assert not token.search(response.data), route
                assert not token.search(str(response.headers).encode()), route
                read += response.status_code == 200
    assert read > 200 * share
    with sessions() as session:
        assert session.scalars(select(ReportLink)).all() == []


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
    _shared(ada, audit_id)
    ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
    page = ada.get(f"/audits/{audit_id}")
    assert "You revoked the links to this report" in page
    assert "/r/" not in page
    for form in FORMS:
        assert ada.client.get(f"/audits/{audit_id}{form}").status_code == 200


def test_all_links_are_revoked_at_once_those_without_a_row_too(
    app: Flask, ada: Browser, eve: Browser, sessions: Sessions
) -> None:
    mine, theirs = [_add(ada, sessions) for _ in range(3)], _add(eve, sessions)
    _shared(ada, mine[0])
    assert ada.post(LINKS, f"{LINKS}/revoke-all").status_code == 303
    for audit_id in mine:
        assert _statuses(app, f"/r/{sign_report(SECRET_KEY, audit_id)}") == [404] * 4
    assert _statuses(app, f"/r/{sign_report(SECRET_KEY, theirs)}") == [200] * 4


@each_case("generation", [1, 2, -1, 10**12])
def test_a_generation_that_was_never_issued_is_not_found(
    app: Flask, ada: Browser, audit_id: str, generation: int
) -> None:
    token = sign_report(SECRET_KEY, audit_id, generation)
    assert _statuses(app, f"/r/{token}") == [404] * 4


def test_a_revoked_link_has_no_expiry(ada: Browser, audit_id: str) -> None:
    _shared(ada, audit_id)
    assert 'data-label="Expires"' in ada.get(LINKS)
    ada.post(LINKS, f"{LINKS}/{audit_id}/revoke")
    assert 'data-label="Expires"' not in ada.get(LINKS)
