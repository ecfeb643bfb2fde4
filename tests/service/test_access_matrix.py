"""Every route times every kind of credential, of its own tenant and of another, against one table.

The routes come from the application's URL map. A row says what a credential that a route does not
take is told, and for each that it takes, what its own tenant and another tenant are told.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from flask import Flask
from flask.testing import FlaskClient
from itsdangerous import URLSafeTimedSerializer
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from service.auth import SCOPES
from service.models import Audit, IngestKey, ReadToken, ReportRow, WebSession
from service.reports.sample import get_sample_report
from service.sessions import COOKIE_NAME, SECRET_FIELD
from service.tokens import sign_report
from tests.service.oauth_flow import add_application, add_token
from tests.service.scenes import (
    ADMIN_TOKEN,
    SECRET_KEY,
    Tenant,
    add_tenant,
    batch,
    bearer,
    signed_cookie,
)

READ_AUDITS, READ_FINDINGS = SCOPES
SESSION, KEY, ADMIN = "session", "ingest key", "admin"
RT_AUDITS, RT_FINDINGS, RT_BOTH = "read token: audits", "read token: findings", "read token: both"
AT_AUDITS, AT_FINDINGS, AT_BOTH = (
    "access token: audits",
    "access token: findings",
    "access token: both",
)
LIST_READERS = (RT_AUDITS, RT_BOTH, AT_AUDITS, AT_BOTH)
FINDINGS_READERS = (RT_FINDINGS, RT_BOTH, AT_FINDINGS, AT_BOTH)
BOTH_READERS = (RT_BOTH, AT_BOTH)
READERS = (RT_AUDITS, RT_FINDINGS, RT_BOTH, AT_AUDITS, AT_FINDINGS, AT_BOTH)
CREDENTIALS = ("none", KEY, *READERS, SESSION, ADMIN)


class Cell(NamedTuple):
    """What the credential's own tenant is told of its own things, and another tenant of them."""

    mine: int
    others: int


@dataclass(frozen=True)
class Row:
    denied: int
    taken: Mapping[str, Cell]
    body: Mapping[str, Any] | None = None

    def cell(self, credential: str) -> Cell:
        return self.taken.get(credential, Cell(self.denied, self.denied))


def _open(status: int = 200, **body: Any) -> Row:
    """For everybody, whatever credential comes along."""
    return Row(status, {}, body or None)


def _reading(readers: tuple[str, ...], own: int = 200, others: int = 404) -> Row:
    lacking = {one: Cell(403, 403) for one in READERS}
    return Row(401, lacking | {one: Cell(own, others) for one in readers})


def _page(others: int = 200) -> Row:
    """Who is not signed in is led to sign-in."""
    return Row(303, {SESSION: Cell(200, others)})


def _form(mine: int = 303, others: int | None = None, /, **form: Any) -> Row:
    """A form of somebody who is signed in, with its token."""
    return Row(403, {SESSION: Cell(mine, mine if others is None else others)}, {"form": form})


def _admin(mine: int, **body: Any) -> Row:
    """Administrators are of no tenant."""
    return Row(404, {ADMIN: Cell(mine, mine)}, body or None)


APPLICATION = {"name": "x", "redirect_uris": "https://x.example/"}
PAYMENT = {
    "email": "x@example.org",
    "provider": "comp",
    "reference": "1",
    "amount": 0,
    "kind": "credit",
}
TABLE: Mapping[tuple[str, str], Row] = {
    ("POST", "/api/v1/ingest"): Row(401, {KEY: Cell(201, 201)}, {"json": batch()}),
    ("GET", "/api/v1/audits"): _reading(LIST_READERS, 200, 200),
    ("GET", "/api/v1/audits/<audit_id>"): _reading(LIST_READERS),
    ("GET", "/api/v1/audits/<audit_id>/findings"): _reading(FINDINGS_READERS),
    ("GET", "/api/v1/audits/<audit_id>/report"): _reading(BOTH_READERS),
    # Signed in, but without a credit: the body is not even looked at.
    ("POST", "/api/v1/audits"): Row(401, {SESSION: Cell(402, 402)}),
    ("GET", "/api/v1/audits/<audit_id>/status"): Row(401, {SESSION: Cell(200, 404)}),
    ("POST", "/api/v1/webhooks/stripe"): _open(404),
    ("POST", "/api/v1/webhooks/paddle"): _open(404),
    ("POST", "/api/v1/early-access"): _open(200, json={"email": "x@example.org"}),
    # Whoever has the link may look, with whatever credential.
    ("GET", "/r/<token>"): _open(),
    ("GET", "/r/<token>/pdf"): _open(),
    ("GET", "/r/<token>/json"): _open(),
    ("GET", "/r/<token>/findings.csv"): _open(),
    ("GET", "/admin"): _admin(200),
    ("POST", "/admin/audits/<audit_id>/purge"): _admin(200),
    ("GET", "/admin/audits/<audit_id>/report"): _admin(200),
    ("POST", "/admin/audits/<audit_id>/rerun"): _admin(422),  # its blob was never stored
    ("POST", "/admin/payments/mark-paid"): _admin(200, json=PAYMENT),
    ("GET", "/admin/early-access.csv"): _admin(200),
    ("GET", "/dashboard"): _page(),
    ("GET", "/audits/<audit_id>"): _page(404),
    ("GET", "/audits/<audit_id>/progress"): Row(401, {SESSION: Cell(200, 404)}),
    ("GET", "/upload"): _open(),
    ("POST", "/upload"): Row(303, {SESSION: Cell(402, 402)}),
    ("GET", "/settings"): _page(),
    ("POST", "/settings/report-mails"): _form(report_mails="none"),
    ("GET", "/settings/delete"): _page(),
    ("POST", "/settings/delete"): _form(422, email="somebody@example.org"),
    ("GET", "/settings/sessions"): _page(),
    ("POST", "/settings/sessions/<session_id>/revoke"): _form(303, 404),
    ("POST", "/settings/sessions/revoke-others"): _form(),
    ("GET", "/settings/applications"): _page(),
    ("POST", "/settings/applications/<application_id>/withdraw"): _form(303, 404),
    ("GET", "/developer"): _page(),
    ("POST", "/developer/ingest-keys"): _form(200),
    ("POST", "/developer/ingest-keys/<key_id>/revoke"): _form(303, 404),
    ("POST", "/developer/ingest-keys/<key_id>/rotate"): _form(200, 422, overlap_hours="1"),
    ("POST", "/developer/read-tokens"): _form(200, scope=READ_AUDITS),
    ("POST", "/developer/read-tokens/<token_id>/revoke"): _form(303, 404),
    ("GET", "/developer/applications"): _page(),
    ("POST", "/developer/applications"): _form(200, None, **APPLICATION),
    ("GET", "/developer/applications/<application_id>"): _page(404),
    ("POST", "/developer/applications/<application_id>"): _form(303, 404, **APPLICATION),
    ("POST", "/developer/applications/<application_id>/rotate-secret"): _form(200, 404),
    ("POST", "/developer/applications/<application_id>/revoke"): _form(303, 404),
    ("GET", "/billing"): _page(),
    # The application's question is judged first, and there is none here.
    ("GET", "/oauth/authorize"): _open(400),
    ("POST", "/oauth/authorize"): Row(403, {SESSION: Cell(400, 400)}, {"form": {}}),
    # The secret of an application is in the body; no other credential helps.
    ("POST", "/oauth/token"): _open(401, data={"grant_type": "authorization_code"}),
    ("POST", "/oauth/revoke"): _open(401, data={"token": "at_x"}),
    ("GET", "/.well-known/oauth-authorization-server"): _open(),
    ("POST", "/auth/magic-link"): _open(200, json={"email": "x@example.org"}),
    ("GET", "/auth/verify"): _open(422),
    ("POST", "/auth/logout"): _open(),
    ("GET", "/sign-in"): _open(),
    ("GET", "/"): _open(),
    ("GET", "/sample"): _open(),
    ("GET", "/deleted"): _open(),
    ("GET", "/docs"): _open(),
    ("GET", "/legal/dpa"): _open(),
    ("GET", "/legal/privacy"): _open(),
    ("GET", "/legal/terms"): _open(),
    ("GET", "/healthz"): _open(),
    ("GET", "/readyz"): _open(),
    ("GET", "/openapi.json"): _open(),
    ("GET", "/static/<path:filename>"): _open(),
}


@dataclass(frozen=True)
class Caller:
    """Headers of one credential; a browser also has the token of its forms."""

    headers: dict[str, str]
    csrf_token: str = ""


@dataclass(frozen=True)
class World:
    """A tenant, one of everything that it can own, and each kind of its credentials."""

    ids: dict[str, str]
    callers: dict[str, Caller]


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    plenty = {
        f"{name}_limit_per_minute": 100_000
        for name in ("magic_link", "early_access", "upload", "oauth")
    }
    return make_app(admin_token=ADMIN_TOKEN, **plenty)


@pytest.fixture
def worlds(sessions: "sessionmaker[Session]") -> tuple[World, World]:
    return _make_world(sessions), _make_world(sessions)


def _make_world(sessions: "sessionmaker[Session]") -> World:
    tenant = add_tenant(sessions)
    application = add_application(sessions, tenant.account_id)
    scopes = {RT_AUDITS: SCOPES[:1], RT_FINDINGS: SCOPES[1:], RT_BOTH: SCOPES}
    allowed = {AT_AUDITS: SCOPES[:1], AT_FINDINGS: SCOPES[1:], AT_BOTH: SCOPES}
    callers = {
        "none": Caller({}),
        KEY: Caller(tenant.writes),
        ADMIN: Caller({"X-Admin-Token": ADMIN_TOKEN}),
        SESSION: _browser(sessions, tenant),
    }
    for name, some in scopes.items():
        callers[name] = Caller(bearer(_add_read_token(sessions, tenant, some)))
    for name, some in allowed.items():
        token = add_token(sessions, application, tenant.account_id, tuple(some))
        callers[name] = Caller(bearer(token))
    ids = _add_things(sessions, tenant)
    return World({**ids, "application_id": application.id}, callers)


def _add_read_token(
    sessions: "sessionmaker[Session]", tenant: Tenant, scopes: tuple[str, ...]
) -> str:
    with sessions() as session:
        row, token = ReadToken.minted(tenant.account_id, scopes=scopes)
        session.add(row)
        session.commit()
        return token


def _browser(sessions: "sessionmaker[Session]", tenant: Tenant) -> Caller:
    with sessions() as session:
        row, secret = WebSession.minted(tenant.account_id, days=30)
        session.add(row)
        session.commit()
    raw = hashlib.sha1(secret.encode(), usedforsecurity=False).hexdigest()
    cookie = signed_cookie({SECRET_FIELD: secret, "csrf_token": raw})
    token = URLSafeTimedSerializer(SECRET_KEY, salt="wtf-csrf-token").dumps(raw)
    return Caller({"Cookie": f"{COOKIE_NAME}={cookie}"}, str(token))


def _add_things(sessions: "sessionmaker[Session]", tenant: Tenant) -> dict[str, str]:
    owned = {"account_id": tenant.account_id}
    with sessions() as session:
        audit = Audit(source="ingest", blob_key="raw/x.jsonl", status="done", **owned)
        other_browser, _ = WebSession.minted(tenant.account_id, days=30)
        session.add_all([audit, other_browser])
        session.flush()
        session.add(ReportRow(audit_id=audit.id, document=get_sample_report()))
        session.commit()
        key = session.query(IngestKey).filter_by(**owned).one()
        token = session.query(ReadToken).filter_by(**owned).first()
        assert token is not None
        return {
            "audit_id": audit.id,
            "session_id": other_browser.id,
            "key_id": key.id,
            "token_id": token.id,
            "token": sign_report(SECRET_KEY, audit.id),
            "path:filename": "tallystick.css",
        }


def _ask(
    client: FlaskClient, route: tuple[str, str], caller: Caller, ids: Mapping[str, str]
) -> TestResponse:
    method, path = route
    for name, value in ids.items():
        path = path.replace(f"<{name}>", value)
    body = dict(TABLE[route].body or {})
    if "form" in body:
        body["data"] = {**body.pop("form"), "csrf_token": caller.csrf_token}
    elif route == ("POST", "/upload"):
        body["data"] = {"file": (b"", "x"), "csrf_token": caller.csrf_token}
    headers = {**caller.headers, "X-Request-Id": "same-id-always"}
    response = client.open(path, method=method, headers=headers, **body)
    response.get_data()  # kept, while the file that it may come from is closed
    response.close()
    return response


def _routes(app: Flask) -> Iterator[tuple[str, str]]:
    for rule in app.url_map.iter_rules():
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield method, rule.rule


def test_the_table_has_every_route_and_no_other(app: Flask) -> None:
    assert set(_routes(app)) == set(TABLE)


def test_no_cell_names_a_credential_that_is_none() -> None:
    assert {one for row in TABLE.values() for one in row.taken} <= set(CREDENTIALS)


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_each_credential_is_told_what_the_table_says(
    app: Flask, worlds: tuple[World, World], route: tuple[str, str]
) -> None:
    """Others first: what is mine may be gone after I was asked."""
    client, row = app.test_client(use_cookies=False), TABLE[route]
    mine, other = worlds
    told: dict[str, int] = {}
    for name in CREDENTIALS:
        told[f"{name} of another"] = _ask(client, route, other.callers[name], mine.ids).status_code
    for name in sorted(CREDENTIALS, key=lambda one: one in row.taken):
        told[name] = _ask(client, route, mine.callers[name], mine.ids).status_code
    expected = {name: row.cell(name).mine for name in CREDENTIALS} | {
        f"{name} of another": row.cell(name).others for name in CREDENTIALS
    }
    assert told == expected


@pytest.mark.parametrize("route", [one for one in TABLE if "<audit_id>" in one[1]], ids=" ".join)
@pytest.mark.parametrize("name", [one for one in CREDENTIALS if one != ADMIN])
def test_anothers_audit_is_told_in_the_bytes_of_a_missing_one(
    app: Flask, worlds: tuple[World, World], route: tuple[str, str], name: str
) -> None:
    client = app.test_client(use_cookies=False)
    mine, other = worlds
    caller = other.callers[name]
    answers = [
        _ask(client, route, caller, {"audit_id": audit_id})
        for audit_id in (mine.ids["audit_id"], "0" * 32)
    ]
    found, missing = (one.data.replace(b"0" * 32, mine.ids["audit_id"].encode()) for one in answers)
    assert answers[0].status_code == answers[1].status_code
    assert found == missing
