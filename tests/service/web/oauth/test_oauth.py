"""The OAuth flow from the authorization request to the first audit that the application reads."""

import base64
import logging
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import time_machine
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models import OAuthCode
from service.models.access.oauth import TOKEN_SECONDS
from tests.cases import each_case
from tests.service.support.oauth_flow import (
    AUTHORIZE,
    BACK,
    REVOKE,
    TOKEN,
    Application,
    add_application,
    answer_of,
    consent,
    email_of,
    get_code,
    get_token,
)
from tests.service.support.scenes import AUDITS, Sessions, Tenant, add_tenant, bearer


def test_the_consent_screen_names_the_application_the_account_and_the_scopes(
    browser: FlaskClient, application: Application, tenant: Tenant, sessions: Sessions
) -> None:
    page = browser.get(
        AUTHORIZE, query_string=application.asks(scope="read:audits"), base_url="https://localhost"
    )
    text = page.get_data(as_text=True)
    assert page.status_code == 200
    for expected in ("Spend Watcher", email_of(sessions, tenant.account_id), "read:audits"):
        assert expected in text
    assert "read:findings" not in text
    assert page.headers["Cache-Control"] == "no-store"
    # Browsers may follow the answer to this one application.
    policy = page.headers["Content-Security-Policy"]
    assert "form-action 'self' https://app.example.org;" in policy
    assert policy.count("example.org") == 1
    assert "example.org" not in browser.get("/").headers["Content-Security-Policy"]


def test_approval_redirects_with_a_code_the_state_and_the_issuer(
    browser: FlaskClient, application: Application
) -> None:
    response = consent(browser, application)
    assert response.status_code == 303
    location = response.headers["Location"]
    assert location.startswith(f"{BACK}&")
    answer = answer_of(location)
    assert answer.pop("code").startswith("oaq_")
    assert answer == {
        "from": "tallystick x",
        "state": "as it was/?&=ü",
        "iss": "http://localhost:8000",
    }
    # Approval without a scope shows the form again.
    response = consent(browser, application, scopes=())
    assert response.status_code == 422
    assert "Select at least one" in response.get_data(as_text=True)
    assert "app.example.org" in response.headers["Content-Security-Policy"]


def test_a_code_is_redeemed_for_a_token_that_reads(
    browser: FlaskClient, application: Application
) -> None:
    response = browser.post(TOKEN, data=application.redeems(get_code(browser, application)))
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Pragma"] == "no-cache"
    assert response.mimetype == "application/json"
    document = response.get_json()
    token = document.pop("access_token")
    assert token.startswith("at_")
    assert document == {
        "token_type": "Bearer",
        "expires_in": 2592000,
        "scope": "read:audits read:findings",
    }
    listed = browser.get(AUDITS, headers=bearer(token))
    assert (listed.status_code, listed.get_json()["audits"]) == (200, [])


@each_case("written", [str, lambda text: "".join(f"%{ord(one):02X}" for one in text)])
def test_the_secret_also_comes_by_basic(
    browser: FlaskClient, application: Application, written: Callable[[str], str]
) -> None:
    """Each half is form-encoded before they are joined (RFC 6749, 2.3.1)."""
    code = get_code(browser, application)
    halves = f"{written(application.client_id)}:{written(application.secret)}"
    pair = base64.b64encode(halves.encode()).decode()
    form = application.redeems(code, client_id=None, client_secret=None)
    response = browser.post(TOKEN, data=form, headers={"Authorization": f"Basic {pair}"})
    assert response.status_code == 200


def test_less_than_was_asked_for_is_allowed_and_stated(
    browser: FlaskClient, application: Application
) -> None:
    code = get_code(browser, application, scopes=("read:audits",))
    document = browser.post(TOKEN, data=application.redeems(code)).get_json()
    assert document["scope"] == "read:audits"
    refused = browser.get(f"{AUDITS}/x/findings", headers=bearer(document["access_token"]))
    assert refused.status_code == 403
    # More than was asked for is never allowed.
    code = get_code(browser, application, scope="read:audits")
    document = browser.post(TOKEN, data=application.redeems(code)).get_json()
    assert document["scope"] == "read:audits"


@each_case("scope", ["read:audits+read:findings", "read:findings read:audits"])
def test_scopes_are_separated_by_spaces_or_pluses(
    browser: FlaskClient, application: Application, scope: str
) -> None:
    code = get_code(browser, application, scope=scope)
    document = browser.post(TOKEN, data=application.redeems(code)).get_json()
    assert document["scope"] == "read:audits read:findings"


@each_case("decision", ["deny", "", "Allow", "allow ", "allow\0"])
def test_any_decision_but_approval_redirects_without_a_code(
    browser: FlaskClient, application: Application, db_session: Session, decision: str
) -> None:
    answer = answer_of(consent(browser, application, decision=decision).headers["Location"])
    assert answer["error"] == "access_denied"
    assert answer["state"] == "as it was/?&=ü"
    assert answer["iss"] == "http://localhost:8000"
    assert db_session.query(OAuthCode).count() == 0


def test_a_signed_out_visitor_goes_to_sign_in_and_back_to_the_consent_screen(
    client: FlaskClient, application: Application
) -> None:
    response = client.get(AUTHORIZE, query_string=application.asks(state="s" * 500))
    assert response.status_code == 303
    where = response.headers["Location"]
    assert where.startswith("/sign-in?next=/oauth/authorize")
    page = client.get(where).get_data(as_text=True)
    assert "/oauth/authorize?response_type=code" in page
    assert "s" * 500 in page


def test_a_code_lives_five_minutes(browser: FlaskClient, application: Application) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        early, late = (get_code(browser, application) for _ in range(2))
        clock.shift(299)
        assert browser.post(TOKEN, data=application.redeems(early)).status_code == 200
        clock.shift(1)
        response = browser.post(TOKEN, data=application.redeems(late))
        assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")


def test_a_token_lives_thirty_days(browser: FlaskClient, application: Application) -> None:
    with time_machine.travel(datetime.now(UTC), tick=False) as clock:
        headers = bearer(get_token(browser, application))
        clock.shift(TOKEN_SECONDS - 1)
        assert browser.get(AUDITS, headers=headers).status_code == 200
        clock.shift(1)
        assert browser.get(AUDITS, headers=headers).status_code == 401


def test_redeeming_a_code_again_ends_what_it_gave_out(
    browser: FlaskClient, application: Application
) -> None:
    code = get_code(browser, application)
    form = application.redeems(code)
    token = browser.post(TOKEN, data=form).get_json()["access_token"]
    # Even with a wrong verifier: anyone with the code and the secret has too much.
    again = browser.post(TOKEN, data={**form, "code_verifier": "w" * 64})
    assert (again.status_code, again.get_json()["error"]) == (400, "invalid_grant")
    assert browser.get(AUDITS, headers=bearer(token)).status_code == 401


def test_a_code_is_worth_nothing_to_another_application(
    browser: FlaskClient, application: Application, sessions: Sessions
) -> None:
    other = add_application(sessions, add_tenant(sessions).account_id)
    code = get_code(browser, application)
    response = browser.post(TOKEN, data=other.redeems(code))
    assert (response.status_code, response.get_json()["error"]) == (400, "invalid_grant")
    assert browser.post(TOKEN, data=application.redeems(code)).status_code == 200
    # An application ends its own token and nobody elses.
    token = get_token(browser, application)
    for asking, status in ((other, 200), (application, 401)):
        form = {
            "token": token,
            "client_id": asking.client_id,
            "client_secret": asking.secret,
            "token_type_hint": "refresh_token",
        }
        response = browser.post(REVOKE, data=form)
        assert (response.status_code, response.get_json()) == (200, {})
        assert response.headers["Cache-Control"] == "no-store"
        assert browser.get(AUDITS, headers=bearer(token)).status_code == status


def test_no_log_line_contains_a_code_or_a_token_even_at_debug_level(
    browser: FlaskClient, application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        code = get_code(browser, application)
        token = browser.post(TOKEN, data=application.redeems(code)).get_json()["access_token"]
    for secret in (code, token, application.secret, application.verifier):
        assert secret not in caplog.text


def test_the_metadata_lists_every_endpoint(client: FlaskClient) -> None:
    from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

    document = client.get("/.well-known/oauth-authorization-server").get_json()
    assert document["issuer"] == "http://localhost:8000"
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["authorization_response_iss_parameter_supported"] is True
    secure = {
        name: value.replace("http://", "https://") if isinstance(value, str) else value
        for name, value in document.items()
    }
    AuthorizationServerMetadata(secure).validate()
