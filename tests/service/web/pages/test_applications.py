"""/developer/applications and /settings/applications."""

import re
from datetime import UTC, datetime

import pytest
import time_machine
from flask import Flask
from sqlalchemy.orm import Session

from service.models import OAuthApplication, OAuthCode
from service.models.access.oauth import MAX_APPLICATIONS, TOKEN_SECONDS
from service.web.oauth.redirects import find_problem
from tests.cases import each_case
from tests.service.support.oauth_flow import (
    TOKEN,
    Application,
    add_application,
    browser_of,
    get_code,
    get_token,
)
from tests.service.support.scenes import AUDITS, Sessions, Tenant, add_tenant, bearer

PAGE, ALLOWED = "/developer/applications", "/settings/applications"
BASE = "https://localhost"


class Browser:
    """A signed-in person's browser that sends each form with its token."""

    def __init__(self, app: Flask, sessions: Sessions, account_id: str) -> None:
        self.client = app.test_client()
        browser_of(sessions, self.client, account_id)

    def load(self, path: str) -> str:
        return self.client.get(path, base_url=BASE).get_data(as_text=True)

    def send(self, path: str, page: str = PAGE, **form: str) -> tuple[int, str]:
        found = re.search(r'name="csrf_token" value="([^"]+)"', self.load(page))
        assert found is not None
        form["csrf_token"] = found[1]
        headers = {"Referer": f"{BASE}{page}"}
        response = self.client.post(path, data=form, base_url=BASE, headers=headers)
        return response.status_code, response.get_data(as_text=True)


@pytest.fixture
def developer(app: Flask, sessions: Sessions, tenant: Tenant) -> Browser:
    return Browser(app, sessions, tenant.account_id)


def _only(session: Session) -> OAuthApplication:
    session.expire_all()
    return session.query(OAuthApplication).one()


def test_an_application_is_registered_and_its_secret_shown_once(
    developer: Browser, db_session: Session
) -> None:
    uris = "https://app.example.org/back\nhttp://localhost:8765/back\n"
    status, page = developer.send(PAGE, name="Spend Watcher", redirect_uris=uris)
    assert status == 200
    [secret] = set(re.findall(r"oas_[0-9A-Za-z]{38}", page))
    row = _only(db_session)
    assert row.client_id in page
    assert row.redirect_uris == uris.split()
    for path in (PAGE, f"{PAGE}/{row.id}", "/developer"):
        assert secret not in developer.load(path)
    assert "Spend Watcher" in developer.load(PAGE)


@each_case(
    ("name", "uris", "said"),
    [
        ("", "https://app.example.org/", "Enter a name for the application"),
        ("x" * 61, "https://app.example.org/", "at most 60"),
        ("x", "", "at least one"),
        ("x", "\n".join(f"https://app.example.org/{n}" for n in range(11)), "at most 10"),
        ("x", "https://app.example.org/\nhttp://app.example.org/", "URI 2 may use http:// only"),
    ],
)
def test_a_wrong_form_is_shown_again_with_what_was_typed(
    developer: Browser, db_session: Session, name: str, uris: str, said: str
) -> None:
    status, page = developer.send(PAGE, name=name, redirect_uris=uris)
    assert status == 422
    assert said in page
    assert uris.split("\n")[0] in page
    assert db_session.query(OAuthApplication).count() == 0


@each_case(
    "uri",
    [
        *("http://app.example.org/", "http://127.0.0.2/", "http://localhost.example.org/"),
        *("https://", "https:///x", "https://a@b.example/", "https://*.example.org/"),
        *("https://app.example.org/*", "https://app.example.org/#x", "https://a.example/../b"),
        *("https://a.example/%2e%2e/b", "https://a.example:0/", "https://a.example:99999/"),
        *("https://A.example/", "HTTPS://a.example/", "com.example.app:/back", "javascript:x"),
        *("https://a.example/ x", "https://a.example\\b", "https://a.\u00e4.example/"),
        *("https://a.example/?code=1", "https://a.example/?x=1&state=", "https://[::2]/"),
        *("https://a.example;script-src/", "https://a..example/", "https://a.example/" + "x" * 500),
    ],
)
def test_an_address_that_is_not_safe_or_not_exact_is_no_redirect_uri(uri: str) -> None:
    assert find_problem(uri) is not None


@each_case(
    "uri",
    [
        *(
            "https://app.example.org/back",
            "https://app.example.org",
            "https://a.example:8443/b?c=d",
        ),
        *(
            "http://localhost/",
            "http://localhost:8765/back",
            "http://127.0.0.1:1/",
            "http://[::1]:2/",
        ),
        *("https://xn--bcher-kva.example/b%C3%BC", "https://192.0.2.1/x"),
    ],
)
def test_https_and_the_loopback_are_redirect_uris(uri: str) -> None:
    assert find_problem(uri) is None


def test_an_account_has_so_many_applications_and_no_more(
    developer: Browser, tenant: Tenant, sessions: Sessions
) -> None:
    for _ in range(MAX_APPLICATIONS):
        add_application(sessions, tenant.account_id)
    status, page = developer.send(PAGE, name="x", redirect_uris="https://app.example.org/")
    assert (status, "up to 20" in page) == (422, True)


def test_other_accounts_applications_are_neither_listed_nor_counted(
    developer: Browser, sessions: Sessions
) -> None:
    other = add_tenant(sessions).account_id
    theirs = [add_application(sessions, other, name="Theirs") for _ in range(MAX_APPLICATIONS)]
    page = developer.load(PAGE)
    assert "Theirs" not in page
    assert theirs[0].client_id not in page
    registered = {"name": "Mine", "redirect_uris": "https://app.example.org/"}
    assert developer.send(PAGE, **registered)[0] == 200


def test_name_and_addresses_change(developer: Browser, db_session: Session) -> None:
    developer.send(PAGE, name="x", redirect_uris="https://app.example.org/")
    path = f"{PAGE}/{_only(db_session).id}"
    assert developer.send(path, path, name="y", redirect_uris="https://b.example/")[0] == 303
    row = _only(db_session)
    assert (row.name, row.redirect_uris) == ("y", ["https://b.example/"])
    status, page = developer.send(path, path, name="z", redirect_uris="ftp://b.example/")
    assert (status, "ftp://b.example/" in page) == (422, True)
    assert _only(db_session).name == "y"


def test_a_replaced_secret_is_worth_nothing_and_tokens_go_on(
    app: Flask, developer: Browser, tenant: Tenant, sessions: Sessions
) -> None:
    application = add_application(sessions, tenant.account_id)
    token = get_token(developer.client, application)
    path = f"{PAGE}/{application.id}"
    status, page = developer.send(f"{path}/rotate-secret", path)
    [secret] = set(re.findall(r"oas_[0-9A-Za-z]{38}", page))
    assert (status, secret != application.secret) == (200, True)
    assert "Secret rotated" in developer.load(path)
    form = application.redeems(get_code(developer.client, application))
    assert developer.client.post(TOKEN, data=form).status_code == 401
    form["client_secret"] = secret
    assert developer.client.post(TOKEN, data=form).status_code == 200
    assert developer.client.get(AUDITS, headers=bearer(token)).status_code == 200


def test_a_revoked_application_is_gone_with_its_tokens(
    developer: Browser, tenant: Tenant, sessions: Sessions, db_session: Session
) -> None:
    application = add_application(sessions, tenant.account_id)
    token = get_token(developer.client, application)
    path = f"{PAGE}/{application.id}"
    assert developer.send(f"{path}/revoke", path)[0] == 303
    assert developer.client.get(AUDITS, headers=bearer(token)).status_code == 401
    assert db_session.query(OAuthCode).count() == 0
    assert developer.send(f"{path}/revoke")[0] == 404


def test_a_person_sees_what_is_allowed_and_withdraws_it(
    app: Flask, tenant: Tenant, sessions: Sessions
) -> None:
    person, other = (
        Browser(app, sessions, one.account_id) for one in (tenant, add_tenant(sessions))
    )
    application, kept = (
        add_application(sessions, add_tenant(sessions).account_id, name=name)
        for name in ("Spend Watcher", "Kept")
    )
    token = get_token(person.client, application, scopes=("read:audits",))
    other_token = get_token(person.client, kept, scopes=("read:audits",))
    theirs = get_token(other.client, application)
    pending = get_code(person.client, application)
    page = person.load(ALLOWED)
    assert "Spend Watcher" in page
    assert "read:audits" in page
    assert "read:findings" not in page
    assert person.send(f"{ALLOWED}/{application.id}/withdraw", ALLOWED)[0] == 303
    assert person.client.get(AUDITS, headers=bearer(token)).status_code == 401
    assert person.client.post(TOKEN, data=application.redeems(pending)).status_code == 400
    assert "Spend Watcher" not in person.load(ALLOWED)
    assert "Kept" in person.load(ALLOWED)
    assert person.client.get(AUDITS, headers=bearer(other_token)).status_code == 200
    assert person.client.get(AUDITS, headers=bearer(theirs)).status_code == 200
    assert person.send(f"{ALLOWED}/{application.id}/withdraw")[0] == 404


def test_what_has_run_out_is_no_longer_among_what_is_allowed(
    app: Flask, tenant: Tenant, sessions: Sessions
) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        application = add_application(sessions, add_tenant(sessions).account_id)
        former = Browser(app, sessions, tenant.account_id)
        get_token(former.client, application, scopes=("read:findings",))
        clock.shift(TOKEN_SECONDS - 1)
        person = Browser(app, sessions, tenant.account_id)
        get_token(person.client, application, scopes=("read:audits",))
        page = person.load(ALLOWED)
        assert ("read:findings" in page, "read:audits" in page) == (True, True)
        clock.shift(1)
        page = person.load(ALLOWED)
        assert ("read:findings" in page, "read:audits" in page) == (False, True)
        clock.shift(TOKEN_SECONDS - 1)
        page = Browser(app, sessions, tenant.account_id).load(ALLOWED)
        assert ("Spend Watcher" in page, "No authorized applications" in page) == (False, True)


def test_a_hostile_name_is_shown_as_text(app: Flask, tenant: Tenant, sessions: Sessions) -> None:
    client = app.test_client()
    browser_of(sessions, client, tenant.account_id)
    application: Application = add_application(
        sessions, tenant.account_id, name="<script>alert(1)</script>"
    )
    page = client.get("/oauth/authorize", query_string=application.asks(), base_url=BASE)
    assert "<script>alert" not in page.get_data(as_text=True)
