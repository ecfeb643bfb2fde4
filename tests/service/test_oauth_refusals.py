"""What OAuth refuses: where it says so, and that nothing is given out."""

import base64
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from service.models import OAuthCode, OAuthToken
from tests.service.oauth_flow import (
    AUTHORIZE,
    REVOKE,
    TOKEN,
    Application,
    add_application,
    answer_of,
    browser_of,
    challenge_of,
    get_code,
)
from tests.service.scenes import Tenant, add_tenant
from tests.worker.promises import Note, always_in_full

REGISTERED = ("https://app.example.org/back", "http://127.0.0.1:8765/back", "http://[::1]:8765/b")
# Each is taken for a registered address by somebody, somewhere.
VARIANTS = (
    "https://app.example.org/back/",
    "https://app.example.org/Back",
    "https://APP.example.org/back",
    "https://app.example.org:443/back",
    "https://app.example.org/back?x=1",
    "https://app.example.org/back?",
    "https://app.example.org/back#x",
    "https://app.example.org/./back",
    "https://app.example.org/x/../back",
    "https://app.example.org/%62ack",
    "https://app.example.org@evil.example/back",
    "https://app.example.org.evil.example/back",
    "https://evil.example/?https://app.example.org/back",
    "http://app.example.org/back",
    "//app.example.org/back",
    "https:app.example.org/back",
    "https://app.example.org\\@evil.example/back",
    "https://app.example.org/back\r\nLocation: https://evil.example",
    "https://app.example.org/back\0",
    " https://app.example.org/back",
    "https://app.example.org/back ",
    "https://app.example.org/b\u00e4ck",
    "http://127.0.0.1/back",
    "http://127.0.0.1:8766/back",
    "http://localhost:8765/back",
    "http://[::1]/b",
    "javascript:alert(1)",
    '"',
    "",
)


@pytest.fixture
def application(sessions: "sessionmaker[Session]") -> Application:
    return add_application(sessions, add_tenant(sessions).account_id, *REGISTERED)


@pytest.fixture
def browser(client: FlaskClient, sessions: "sessionmaker[Session]", tenant: Tenant) -> FlaskClient:
    browser_of(sessions, client, tenant.account_id)
    return client


def _shown(response: Any) -> bool:
    """Whether it is a page that says what is wrong, and leads nowhere."""
    is_page = response.status_code == 400 and response.mimetype == "text/html"
    return is_page and "Location" not in response.headers


@always_in_full
@pytest.mark.usefixtures("occasion")
@pytest.mark.parametrize("is_signed_in", [True, False])
def test_no_address_but_a_registered_one_is_redirected_to(
    browser: FlaskClient, application: Application, note: Note, is_signed_in: bool
) -> None:
    if not is_signed_in:
        browser.delete_cookie("tallystick_session")
    lost = 0
    for redirect_uri in VARIANTS:
        for wrong in ({}, {"scope": "write:all"}, {"response_type": "token"}):
            asked = application.asks(redirect_uri=redirect_uri, **wrong)
            response = browser.get(AUTHORIZE, query_string=asked, base_url="https://localhost")
            lost += not _shown(response)
    note("29 variants of redirect URIs are shown an error, and redirected nowhere", 87, lost)


@pytest.mark.parametrize(
    "client_id", [None, "", "oac_x", "oac_" + "0" * 38, "\0", "\u00fc", "' OR 1=1 --"]
)
def test_an_unknown_client_is_shown_an_error(
    browser: FlaskClient, application: Application, client_id: str | None
) -> None:
    asked = application.asks(client_id=client_id)
    assert _shown(browser.get(AUTHORIZE, query_string=asked))


@pytest.mark.parametrize("name", ["client_id", "redirect_uri"])
def test_two_clients_or_two_addresses_are_shown_an_error(
    browser: FlaskClient, application: Application, name: str
) -> None:
    asked = application.asks()
    asked[name] = [asked[name], asked[name]]
    assert _shown(browser.get(AUTHORIZE, query_string=asked))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code token"}, "unsupported_response_type"),
        ({"response_type": "\u00fc"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"scope": None}, "invalid_scope"),
        ({"scope": ""}, "invalid_scope"),
        ({"scope": "read:audits write:audits"}, "invalid_scope"),
        ({"scope": "read:audits\tread:findings"}, "invalid_scope"),
        ({"scope": "READ:AUDITS"}, "invalid_scope"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": "s256"}, "invalid_request"),
        ({"code_challenge": "c" * 42}, "invalid_request"),
        ({"code_challenge": "c" * 44}, "invalid_request"),
        ({"code_challenge": "c" * 43 + "\n"}, "invalid_request"),
        ({"code_challenge": "\u00fc" * 43}, "invalid_request"),
        ({"scope": ["read:audits", "read:audits"]}, "invalid_request"),
        ({"state": ["a", "b"]}, "invalid_request"),
        ({"code_challenge_method": ["S256", "S256"]}, "invalid_request"),
        ({"code_challenge_method": ["S256", "plain"]}, "invalid_request"),
    ],
)
def test_any_other_mistake_is_told_to_the_application(
    browser: FlaskClient, application: Application, wrong: dict[str, Any], error: str
) -> None:
    response = browser.get(AUTHORIZE, query_string=application.asks(**wrong))
    assert response.status_code == 303
    assert response.headers["Location"].startswith("https://app.example.org/back?")
    answer = answer_of(response.headers["Location"])
    assert answer["error"] == error
    assert answer["iss"] == "http://localhost:8000"
    assert "state" in answer
    assert "code" not in answer


def _refused(client: FlaskClient, form: dict[str, Any], status: int, error: str) -> bool:
    response = client.post(TOKEN, data=form)
    assert response.mimetype == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    document = response.get_json()
    assert set(document) <= {"error", "error_description"}
    return (response.status_code, document["error"]) == (status, error)


VERIFIERS = (
    *(None, "", "v" * 42, "v" * 129, "v" * 63 + "\u00fc", "\u00fc" * 64, "v" * 63 + " "),
    *("v" * 64 + "\n", "v" * 63 + "\0", "w" * 64, "V" * 64, "v" * 63 + "+", challenge_of("v" * 64)),
)


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_no_verifier_but_the_one_redeems_a_code(
    browser: FlaskClient, application: Application, db_session: Session, note: Note
) -> None:
    code, lost = get_code(browser, application), 0
    for verifier in VERIFIERS:
        response = browser.post(TOKEN, data=application.redeems(code, code_verifier=verifier))
        is_refused = response.get_json()["error"] in ("invalid_grant", "invalid_request")
        lost += not (response.status_code == 400 and is_refused)
    lost += db_session.query(OAuthToken).count()
    note("verifiers of 42 and 129 characters, non-ASCII and others are refused", 13, lost)
    assert browser.post(TOKEN, data=application.redeems(code)).status_code == 200


@pytest.mark.parametrize("length", [43, 128])
def test_the_shortest_and_the_longest_verifier_redeem(
    browser: FlaskClient, application: Application, length: int
) -> None:
    verifier = "-._~" + "v" * (length - 4)
    code = get_code(browser, application, code_challenge=challenge_of(verifier))
    form = application.redeems(code, code_verifier=verifier)
    assert browser.post(TOKEN, data=form).status_code == 200


@pytest.mark.parametrize(
    ("wrong", "status", "error"),
    [
        ({"grant_type": None}, 400, "unsupported_grant_type"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, 400, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
        ({"grant_type": "\u00fc"}, 400, "unsupported_grant_type"),
        ({"code": None}, 400, "invalid_request"),
        ({"code": ""}, 400, "invalid_grant"),
        ({"code": "oaq_" + "0" * 38}, 400, "invalid_grant"),
        ({"code": "\0\u00fc"}, 400, "invalid_grant"),
        ({"redirect_uri": None}, 400, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:8765/back"}, 400, "invalid_grant"),
        ({"redirect_uri": "https://app.example.org/back/"}, 400, "invalid_grant"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_secret": ""}, 401, "invalid_client"),
        ({"client_secret": "oas_" + "0" * 38}, 401, "invalid_client"),
        ({"client_secret": "\u00fc\0"}, 401, "invalid_client"),
        ({"client_id": None}, 401, "invalid_client"),
        ({"client_id": "oac_" + "0" * 38}, 401, "invalid_client"),
        ({"client_id": ["a", "b"]}, 400, "invalid_request"),
        ({"code_verifier": ["v" * 64, "v" * 64]}, 400, "invalid_request"),
    ],
)
def test_a_wrong_redemption_is_refused_in_the_standards_words(
    browser: FlaskClient,
    application: Application,
    wrong: dict[str, Any],
    status: int,
    error: str,
) -> None:
    form = application.redeems(get_code(browser, application), **wrong)
    assert _refused(browser, form, status, error)


@pytest.mark.parametrize(
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


def test_two_ways_of_saying_who_one_is_are_refused(
    browser: FlaskClient, application: Application
) -> None:
    pair = base64.b64encode(f"{application.client_id}:{application.secret}".encode()).decode()
    headers = {"Authorization": f"Basic {pair}"}
    for changed in ({}, {"client_secret": None, "client_id": "oac_other"}):
        form = application.redeems(get_code(browser, application), **changed)
        response = browser.post(TOKEN, data=form, headers=headers)
        assert (response.status_code, response.get_json()["error"]) == (400, "invalid_request")


@pytest.mark.parametrize("path", [TOKEN, REVOKE])
def test_what_is_no_small_form_is_refused_in_the_standards_shape(
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


def test_parameters_in_the_address_of_a_redemption_count_for_nothing(
    browser: FlaskClient, application: Application
) -> None:
    form = application.redeems(get_code(browser, application))
    empty = {"Content-Type": "application/x-www-form-urlencoded"}
    response = browser.post(TOKEN, query_string=form, headers=empty)
    assert response.status_code == 400


def test_the_browser_of_a_person_redeems_nothing_for_being_signed_in(
    browser: FlaskClient, application: Application
) -> None:
    form = application.redeems(get_code(browser, application), client_secret=None)
    assert _refused(browser, form, 401, "invalid_client")


def test_a_refused_request_leaves_no_code(
    browser: FlaskClient, application: Application, db_session: Session
) -> None:
    for wrong in ({"redirect_uri": VARIANTS[0]}, {"scope": "x"}, {"code_challenge": None}):
        form = {"decision": "allow", "scope": "read:audits"}
        browser.post(AUTHORIZE, query_string=application.asks(**wrong), data=form)
    assert db_session.query(OAuthCode).count() == 0


def test_a_rate_limit_is_told_in_the_standards_shape(make_app: Any) -> None:
    limited = make_app(oauth_limit_per_minute=2).test_client()
    statuses = [limited.post(TOKEN, data={"grant_type": "x"}) for _ in range(3)]
    assert [one.status_code for one in statuses] == [400, 400, 429]
    assert statuses[-1].get_json()["error"] == "temporarily_unavailable"
    assert int(statuses[-1].headers["Retry-After"]) > 0
