"""Rejected authorization requests: where the error appears, and that nothing is issued."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from service.models import OAuthCode
from tests.cases import data_of, each_case
from tests.service.support.oauth_flow import (
    AUTHORIZE,
    Application,
    add_application,
    answer_of,
    consent,
)
from tests.service.support.scenes import Sessions, add_tenant
from tests.worker.support.promises import Note, always_in_full, at_a_third, in_turn

REGISTERED = ("https://app.example.org/back", "http://127.0.0.1:8765/back", "http://[::1]:8765/b")
# Each is taken for a registered address by somebody, somewhere.
VARIANTS = tuple(data_of(__file__)["variants"])


@pytest.fixture
def application(sessions: Sessions) -> Application:
    return add_application(sessions, add_tenant(sessions).account_id, *REGISTERED)


def _shown(response: Any) -> bool:
    """Whether it is a page that says what is wrong, and leads nowhere."""
    is_page = response.status_code == 400 and response.mimetype == "text/html"
    return is_page and "Location" not in response.headers


@at_a_third
@pytest.mark.parametrize("is_signed_in", [True, False])
def test_no_address_but_a_registered_one_is_redirected_to(
    browser: FlaskClient, application: Application, note: Note, is_signed_in: bool, share: float
) -> None:
    """A third is each variant with another mistake beside it, or none."""
    if not is_signed_in:
        browser.delete_cookie("tallystick_session")
    tried = lost = 0
    mistakes: list[dict[str, str]] = [{}, {"scope": "write:all"}, {"response_type": "token"}]
    for number, redirect_uri in enumerate(VARIANTS):
        for wrong in in_turn(mistakes, number + is_signed_in, share):
            tried += 1
            asked = application.asks(redirect_uri=redirect_uri, **wrong)
            response = browser.get(AUTHORIZE, query_string=asked, base_url="https://localhost")
            lost += not _shown(response)
    note("29 variants of redirect URIs are shown an error, and redirected nowhere", tried, lost)


@each_case("client_id", [None, "", "oac_x", "oac_" + "0" * 38, "\0", "\u00fc", "' OR 1=1 --"])
def test_an_unknown_client_is_shown_an_error(
    browser: FlaskClient, application: Application, client_id: str | None
) -> None:
    asked = application.asks(client_id=client_id)
    assert _shown(browser.get(AUTHORIZE, query_string=asked))


@each_case("name", ["client_id", "redirect_uri"])
def test_two_clients_or_two_addresses_are_shown_an_error(
    browser: FlaskClient, application: Application, name: str
) -> None:
    asked = application.asks()
    asked[name] = [asked[name], asked[name]]
    assert _shown(browser.get(AUTHORIZE, query_string=asked))


@each_case(
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
        ({"scope": ["read:audits", "read:audits"]}, "invalid_request"),
        ({"state": ["a", "b"]}, "invalid_request"),
        ({"code_challenge_method": ["S256", "S256"]}, "invalid_request"),
        ({"code_challenge_method": ["S256", "plain"]}, "invalid_request"),
    ],
)
def test_any_other_error_is_sent_to_the_application(
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


@each_case(
    "name",
    [
        *("response_type", "client_id", "redirect_uri", "scope"),
        *("code_challenge", "code_challenge_method"),
    ],
)
def test_no_rejection_repeats_what_was_asked(
    browser: FlaskClient, application: Application, name: str
) -> None:
    response = browser.get(AUTHORIZE, query_string=application.asks(**{name: "canary"}))
    assert response.status_code in (303, 400)
    assert "canary" not in response.get_data(as_text=True)
    assert "canary" not in response.headers.get("Location", "")


CHALLENGES: tuple[dict[str, Any], ...] = (
    {"code_challenge": None},
    {"code_challenge": ""},
    {"code_challenge_method": None},
    {"code_challenge_method": ""},
    {"code_challenge": None, "code_challenge_method": None},
    {"code_challenge_method": "plain"},
    {"code_challenge_method": "s256"},
    {"code_challenge_method": "S256 "},
    {"code_challenge": "v" * 64, "code_challenge_method": "plain"},
    {"code_challenge": "c" * 42},
    {"code_challenge": "c" * 44},
    {"code_challenge": "c" * 42 + "="},
    {"code_challenge": "c" * 43 + "\n"},
    {"code_challenge": "\u00fc" * 43},
)


@always_in_full
@pytest.mark.usefixtures("occasion")
def test_no_code_is_issued_without_an_s256_challenge(
    browser: FlaskClient, application: Application, db_session: Session, note: Note
) -> None:
    """Neither by the question nor by a form that was loaded for a good one."""
    lost = 0
    for wrong in CHALLENGES:
        asked = browser.get(AUTHORIZE, query_string=application.asks(**wrong))
        lost += answer_of(asked.headers["Location"]).get("error") != "invalid_request"
        sent = consent(browser, application, sent_to=application.asks(**wrong))
        lost += answer_of(sent.headers["Location"]).get("error") != "invalid_request"
    lost += db_session.query(OAuthCode).count()
    note("29 plain, missing and malformed challenges get no code", 2 * len(CHALLENGES), lost)


def test_a_rejected_request_leaves_no_code(
    browser: FlaskClient, application: Application, db_session: Session
) -> None:
    for wrong in ({"redirect_uri": VARIANTS[0]}, {"scope": "x"}, {"code_challenge": None}):
        form = {"decision": "allow", "scope": "read:audits"}
        browser.post(AUTHORIZE, query_string=application.asks(**wrong), data=form)
    assert db_session.query(OAuthCode).count() == 0


@pytest.mark.parametrize(
    "wrong", [{"scope": "write:all"}, {"response_type": "token"}, {"code_challenge": None}]
)
def test_nobody_is_sent_to_an_application_before_signing_in(
    browser: FlaskClient, application: Application, wrong: dict[str, Any]
) -> None:
    """A link to this site with a deliberate mistake would else lead anyone anywhere."""
    asked = application.asks(**wrong)
    visitor = browser.application.test_client()
    answer = visitor.get(AUTHORIZE, query_string=asked)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/sign-in?next=/oauth/authorize")
    onward = parse_qs(urlsplit(answer.headers["Location"]).query)["next"][0]
    back = browser.get(onward).headers["Location"]
    assert back.startswith("https://app.example.org/back?")
    assert answer_of(back)["state"] == asked["state"]
