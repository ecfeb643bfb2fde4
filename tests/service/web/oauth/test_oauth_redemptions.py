"""Invalid redemptions get the errors of the standards."""

import base64
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.core.tokens import Kind, mint
from service.models import OAuthToken
from tests.cases import each_case
from tests.service.support.oauth_flow import (
    REVOKE,
    TOKEN,
    Application,
    add_application,
    challenge_of,
    get_code,
)
from tests.service.support.scenes import AUDITS, Sessions, add_tenant, bearer
from tests.worker.support.promises import Note, always_in_full


def _refused(client: FlaskClient, form: dict[str, Any], status: int, error: str) -> bool:
    response = client.post(TOKEN, data=form)
    assert response.mimetype == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Pragma"] == "no-cache"
    document = response.get_json()
    assert set(document) <= {"error", "error_description"}
    return (response.status_code, document["error"]) == (status, error)


MALFORMED = (
    *("", "v" * 42, "v" * 129, "v" * 63 + "\u00fc", "\u00fc" * 64, "v" * 63 + " "),
    *("v" * 64 + "\n", "v" * 63 + "\0", "v" * 63 + "+", "v" * 43 + "="),
)
OTHERS = ("w" * 64, "V" * 64, "v" * 63, "v" * 65, challenge_of("v" * 64))


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_no_verifier_but_the_one_redeems_a_code(
    browser: FlaskClient, application: Application, db_session: Session, note: Note
) -> None:
    """Malformed ones not even where the challenge was made of them."""
    code, lost = get_code(browser, application), 0
    for verifier in MALFORMED:
        own = get_code(browser, application, code_challenge=challenge_of(verifier))
        form = application.redeems(own, code_verifier=verifier)
        lost += not _refused(browser, form, 400, "invalid_request")
    lost += not _refused(
        browser, application.redeems(code, code_verifier=None), 400, "invalid_request"
    )
    for verifier in OTHERS:
        form = application.redeems(code, code_verifier=verifier)
        lost += not _refused(browser, form, 400, "invalid_grant")
    lost += db_session.query(OAuthToken).count()
    tries = len(MALFORMED) + len(OTHERS) + 1
    note("29 verifiers of 42 and 129 characters, non-ASCII and others are refused", tries, lost)
    assert browser.post(TOKEN, data=application.redeems(code)).status_code == 200


@each_case("length", [43, 128])
def test_the_shortest_and_the_longest_verifier_redeem(
    browser: FlaskClient, application: Application, length: int
) -> None:
    verifier = "-._~" + "v" * (length - 4)
    code = get_code(browser, application, code_challenge=challenge_of(verifier))
    form = application.redeems(code, code_verifier=verifier)
    assert browser.post(TOKEN, data=form).status_code == 200


@each_case(
    ("wrong", "status", "error"),
    [
        ({"grant_type": None}, 400, "unsupported_grant_type"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 400, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
        ({"grant_type": "\u00fc"}, 400, "unsupported_grant_type"),
        ({"code": None}, 400, "invalid_request"),
        ({"code": ""}, 400, "invalid_grant"),
        ({"code": mint(Kind.AUTHORIZATION_CODE)}, 400, "invalid_grant"),
        ({"code": "\0\u00fc"}, 400, "invalid_grant"),
        ({"redirect_uri": None}, 400, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:8765/back"}, 400, "invalid_grant"),
        ({"redirect_uri": "https://app.example.org/back/"}, 400, "invalid_grant"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_secret": ""}, 401, "invalid_client"),
        ({"client_secret": "oas_" + "0" * 38}, 401, "invalid_client"),
        ({"client_secret": mint(Kind.CLIENT_SECRET)}, 401, "invalid_client"),
        ({"client_secret": "\u00fc\0"}, 401, "invalid_client"),
        ({"client_id": None}, 401, "invalid_client"),
        ({"client_id": mint(Kind.CLIENT_ID)}, 401, "invalid_client"),
        ({"client_id": ["a", "b"]}, 400, "invalid_request"),
        ({"code_verifier": ["v" * 64, "v" * 64]}, 400, "invalid_request"),
    ],
)
def test_a_wrong_redemption_is_rejected_in_the_standards_words(
    browser: FlaskClient, application: Application, wrong: dict[str, Any], status: int, error: str
) -> None:
    form = application.redeems(get_code(browser, application), **wrong)
    assert _refused(browser, form, status, error)


@each_case(
    "name", ["grant_type", "code", "redirect_uri", "client_id", "client_secret", "code_verifier"]
)
def test_no_rejection_repeats_what_was_sent(
    browser: FlaskClient, application: Application, name: str
) -> None:
    form = application.redeems(get_code(browser, application), **{name: "canary"})
    response = browser.post(TOKEN, data=form)
    assert response.status_code in (400, 401)
    assert "canary" not in response.get_data(as_text=True)


@each_case(
    ("header", "status", "error"),
    [
        ("Basic !!!", 401, "invalid_client"),
        ("Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(), 401, "invalid_client"),
        ("Basic " + base64.b64encode(b"nocolon").decode(), 401, "invalid_client"),
        ("Bearer at_x", 401, "invalid_client"),
        ("", 401, "invalid_client"),
    ],
)
def test_a_broken_header_is_an_unknown_client(
    browser: FlaskClient, application: Application, header: str, status: int, error: str
) -> None:
    form = application.redeems("oaq_x", client_id=None, client_secret=None)
    response = browser.post(TOKEN, data=form, headers={"Authorization": header})
    assert (response.status_code, response.get_json()["error"]) == (status, error)
    assert response.headers["WWW-Authenticate"].startswith("Basic")


def _basic(client_id: str, secret: str) -> dict[str, str]:
    pair = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def test_another_applications_secret_redeems_and_ends_nothing(
    browser: FlaskClient, application: Application, sessions: Sessions
) -> None:
    other = add_application(sessions, add_tenant(sessions).account_id)
    code = get_code(browser, application)
    redeemed = browser.post(TOKEN, data=application.redeems(get_code(browser, application)))
    token = redeemed.get_json()["access_token"]
    for path, form in ((TOKEN, application.redeems(code)), (REVOKE, {"token": token})):
        named = {"client_id": application.client_id, "client_secret": other.secret}
        by_post = browser.post(path, data={**form, **named})
        nameless = {key: value for key, value in form.items() if not key.startswith("client_")}
        headers = _basic(application.client_id, other.secret)
        by_basic = browser.post(path, data=nameless, headers=headers)
        for refused in (by_post, by_basic):
            assert (refused.status_code, refused.get_json()["error"]) == (401, "invalid_client")
    assert browser.get(AUDITS, headers=bearer(token)).status_code == 200
    assert browser.post(TOKEN, data=application.redeems(code)).status_code == 200


def test_two_credentials_in_one_request_are_rejected(
    browser: FlaskClient, application: Application
) -> None:
    headers = _basic(application.client_id, application.secret)
    for changed in ({}, {"client_secret": None, "client_id": "oac_other"}):
        form = application.redeems(get_code(browser, application), **changed)
        response = browser.post(TOKEN, data=form, headers=headers)
        assert (response.status_code, response.get_json()["error"]) == (400, "invalid_request")
    # Parameters in the address of a redemption count for nothing.
    form = application.redeems(get_code(browser, application))
    empty = {"Content-Type": "application/x-www-form-urlencoded"}
    response = browser.post(TOKEN, query_string=form, headers=empty)
    assert response.status_code == 400


@each_case("path", [TOKEN, REVOKE])
def test_what_is_no_small_form_is_rejected_in_the_standards_shape(
    client: FlaskClient, path: str
) -> None:
    for response, status in (
        (client.post(path, json={"grant_type": "authorization_code"}), 400),
        (client.post(path), 400),
        (client.post(path, data={"x": (b"x" * 20_000).decode()}), 413),
        (client.get(path), 405),
    ):
        assert response.status_code == status
        assert response.get_json()["error"] == "invalid_request"
        assert response.headers["Cache-Control"] == "no-store"


@each_case("form", [{}, {"token": ""}, {"token_type_hint": "access_token"}])
def test_a_revocation_that_names_no_token_is_rejected(
    client: FlaskClient, application: Application, form: dict[str, str]
) -> None:
    named = {"client_id": application.client_id, "client_secret": application.secret}
    refused = client.post(REVOKE, data={**form, **named})
    assert (refused.status_code, refused.get_json()["error"]) == (400, "invalid_request")
    assert "token" in refused.get_json()["error_description"]


def test_a_rate_limit_error_has_the_standards_shape(share_app: Any) -> None:
    limited = share_app(oauth_limit_per_minute=2).test_client()
    statuses = [limited.post(TOKEN, data={"grant_type": "x"}) for _ in range(3)]
    assert [one.status_code for one in statuses] == [400, 400, 429]
    assert statuses[-1].get_json()["error"] == "temporarily_unavailable"
    assert int(statuses[-1].headers["Retry-After"]) > 0
