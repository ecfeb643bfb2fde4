"""Public pages: landing page, prices, data handling, errors."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from detectors.wording.names import introduce_detectors
from service.web.http.headers import SECURITY_HEADERS
from tests.cases import each_case
from tests.service.support.browser import words_of

_ASKED: dict[str, Any] = {
    "data": {"email": "a@example.org"},
    "headers": {"Accept": "text/html"},
}
LEGAL = ("/legal/dpa", "/legal/privacy", "/legal/terms")
OPEN = ("/", "/sign-in", "/docs", "/glossary", "/deleted", "/sample", *LEGAL)


def _words(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return words_of(answer.get_data(as_text=True))


@each_case("path", OPEN)
def test_a_page_has_one_heading_a_title_and_a_main_part(client: FlaskClient, path: str) -> None:
    page = client.get(path).get_data(as_text=True)
    assert page.startswith("<!doctype html>")
    for part in ("<h1", "<title>", "<main", '<html lang="en">', '<a class="skip"'):
        assert page.count(part) == 1, part


@each_case("path", [*OPEN, "/nowhere"])
def test_a_page_runs_no_inline_script_and_asks_no_other_site(
    client: FlaskClient, path: str
) -> None:
    answer = client.get(path)
    page = answer.get_data(as_text=True)
    for name, value in SECURITY_HEADERS.items():
        if name != "Referrer-Policy":
            assert answer.headers[name] == value
    assert "<script>" not in page
    assert " style=" not in page.partition("<main")[0]
    assert " onclick=" not in page
    assert 'src="http' not in page


def test_the_landing_page_makes_the_promise_and_leads_on(client: FlaskClient) -> None:
    page = client.get("/").get_data(as_text=True)
    words = words_of(page)
    assert "reject records with fields beyond counts" in words
    assert "Nobody can turn that off." in words
    for path in ("/sample", "/upload", "/sign-in", "/docs", *LEGAL):
        assert f'href="{path}"' in page
    # It introduces every detector.
    for name, summary in introduce_detectors().values():
        assert f"{name} {summary}" in words
    # Without a provider prices are plain words.
    assert "sold online here" in words
    assert "Price shown at checkout" not in words


def test_prices_are_those_of_the_settings(make_app: Callable[..., Flask]) -> None:
    sold = make_app(
        stripe_webhook_secret="whsec_x", credit_price_shown="$49", pro_price_shown="<b>$99</b>"
    )
    page = sold.test_client().get("/").get_data(as_text=True)
    assert "$49" in page
    assert "&lt;b&gt;$99&lt;/b&gt;" in page
    assert page.count("Price shown at checkout") == 1
    assert "sold online here" not in page


@each_case("path", LEGAL)
def test_legal_pages_name_the_operator_or_say_that_nobody_did(
    client: FlaskClient, make_app: Callable[..., Flask], path: str
) -> None:
    assert "the operator of this installation (not named in its settings)" in _words(client, path)
    named = make_app(operator_name="Example GmbH", operator_contact="privacy@example.org")
    words = _words(named.test_client(), path)
    assert "Example GmbH (privacy@example.org)" in words


def test_legal_pages_show_the_configured_days(make_app: Callable[..., Flask]) -> None:
    app = make_app(
        raw_retention_days=3,
        failed_raw_retention_days=11,
        mail_retention_days=1,
        report_retention_days=21,
        call_retention_days=123,
        report_link_days=17,
        magic_link_minutes=9,
        sub_processors="Host One; Mail Two ;",
    )
    client = app.test_client()
    for path in ("/legal/dpa", "/legal/privacy"):
        words = _words(client, path)
        assert "3 days after the report; 11 days after a failed audit" in words
        assert "21 days after the report, or as long as a link to it works" in words
        assert "123 days after the day of the call" in words
        assert "the list of audits with their totals Until the account is deleted" in words
        assert "recipient and type 1 day " in words
        assert "links 9 minutes" in words
        assert "Host One Mail Two" in words
    assert "Report links work for 17 days" in _words(client, "/legal/terms")


def test_an_error_page_says_what_to_do_and_which_request_it_was(
    make_app: Callable[..., Flask],
) -> None:
    app = make_app()
    app.add_url_rule("/breaks", view_func=lambda: str(1 / 0))
    for path, status, title in (
        ("/nowhere", 404, "Not found"),
        ("/breaks", 500, "Something went wrong"),
    ):
        answer = app.test_client().get(path)
        words = words_of(answer.get_data(as_text=True))
        assert answer.status_code == status
        assert title in words
        assert f"Status {status}, request ID {answer.headers['X-Request-Id']}" in words


def test_addresses_that_people_type_lead_to_sign_in(client: FlaskClient) -> None:
    for typed in ("/login", "/signin", "/signup"):
        answer = client.get(typed)
        assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in"), typed


def test_without_a_mail_server_sign_in_names_the_file_of_the_mail(
    make_app: Callable[..., Flask], tmp_path: Path
) -> None:
    outbox = str(tmp_path / "outbox")
    client = make_app(outbox_folder=outbox, owner_email="owner@localhost").test_client(
        use_cookies=False
    )
    words = _words(client, "/sign-in")
    assert f"each mail is a file in {outbox} ." in words
    assert "owner@localhost" in words
    page = client.post("/auth/magic-link", **_ASKED).get_data(as_text=True)
    assert re.search(rf"<code>{outbox}/[0-9a-f-]+\.eml</code>", page)
    assert "sent you a sign-in link" not in page


@each_case(
    "production", [{"smtp_url": "smtp://mail.example"}, {"base_url": "https://tally.example"}]
)
def test_a_production_service_names_no_folder(
    make_app: Callable[..., Flask], production: dict[str, str]
) -> None:
    client = make_app(outbox_folder="/srv/outbox", **production).test_client(use_cookies=False)
    assert "/srv/outbox" not in client.get("/sign-in").get_data(as_text=True)
    page = client.post("/auth/magic-link", **_ASKED).get_data(as_text=True)
    assert "We sent you a sign-in link." in words_of(page)
    assert "/srv/outbox" not in page


def test_programs_get_the_same_response_with_and_without_a_mail_server(
    client: FlaskClient, make_app: Callable[..., Flask]
) -> None:
    asked = {"json": {"email": "a@example.org"}}
    mailing = make_app(smtp_url="smtp://mail.example").test_client()
    answers = [each.post("/auth/magic-link", **asked) for each in (client, mailing)]
    assert answers[0].get_json() == answers[1].get_json()


def test_every_link_to_the_glossary_leads_to_a_word_of_it(client: FlaskClient) -> None:
    ids = set(re.findall(r'<(?:div|h2) id="([^"]+)"', client.get("/glossary").text))
    linked = {
        anchor
        for path in ("/", "/sample", "/glossary")
        for anchor in re.findall(r'href="/glossary#([^"]+)"', client.get(path).text)
    }
    assert {"estimated", "conditional", "money"} <= linked <= ids
