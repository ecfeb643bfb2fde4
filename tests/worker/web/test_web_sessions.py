"""Sessions through gunicorn: safe from fixation and other sites, and invalid after they end."""

import re

import pytest
import requests

from service.app import create_app
from service.config import Config
from service.web.auth.browsers import SESSION_COOKIE
from service.web.http.paths import OAUTH_CALLS
from tests.smtp_sink import Sink
from tests.worker.support.mailing import (
    SESSIONS,
    ask_for_link,
    confirm,
    cookies_of,
    get,
    is_signed_in,
    new_address,
    post,
    sign_in,
    wait_for_link,
)
from tests.worker.support.promises import Note, always_in_full, in_full_only, in_turn
from tests.worker.support.system import System

FOREIGN = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "https://audit.example.evil.example", "Sec-Fetch-Site": "cross-site"},
)


@pytest.fixture
def system(mailing_system: System) -> System:
    return mailing_system


@always_in_full
def test_sessions_are_safe(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """A cookie that was there before is not adopted, and one that was signed out is refused."""
    attacker, anonymous = sign_in(system, sink), cookies_of(get(system, "/sign-in"))
    losses, tries = 0, 0
    for preset in (attacker, anonymous):
        email = new_address()
        ask_for_link(system, email)
        signed_in = confirm(system, wait_for_link(sink, email), **preset)
        mine = cookies_of(signed_in)
        losses += mine == preset or not is_signed_in(system, mine) or is_signed_in(system, preset)
        assert email in get(system, SESSIONS, **mine).text
        out = post(system, "/auth/logout", mine)
        losses += out.status_code != 200 or is_signed_in(system, mine)
        losses += f"{SESSION_COOKIE}=;" not in out.headers["Set-Cookie"]
        losses += post(system, "/auth/logout", mine).status_code != 200
        tries += 4
    note("23 preset cookies, and old ones after logout, are refused", tries, losses)


def test_signing_out_twice_or_without_a_session_is_no_error(system: System) -> None:
    for headers in ({}, {"Accept": "text/html"}, {"Cookie": f"{SESSION_COOKIE}=x"}):
        assert post(system, "/auth/logout", headers).status_code == 200


@in_full_only
def test_no_other_site_posts_any_form(system: System, sink: Sink, note: Note, share: float) -> None:
    """Every route that takes what could change something, with a session and a token of a form.

    By default, `test_csrf.py` of the web tries a form.
    """
    headers = sign_in(system, sink)
    page = get(system, SESSIONS, **headers)
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    headers = _cookies_after(page, headers)
    losses, tries = 0, 0
    for number, (method, path) in enumerate(_unsafe_routes()):
        for foreign in in_turn(FOREIGN, number, share):
            url, form = f"{system.base_url}{path}", {"csrf_token": token, "email": "a@example.org"}
            answer = requests.request(
                method, url, headers={**headers, **foreign}, data=form, timeout=60
            )
            refused = 404 if path.startswith("/admin") else 403
            losses += answer.status_code != refused
            tries += 1
    losses += not is_signed_in(system, headers)
    note("23 cross-origin POSTs to every form are refused", tries, losses)
    assert tries >= 8 * len(FOREIGN)


@in_full_only
def test_no_form_of_a_page_is_accepted_without_its_token(
    system: System, sink: Sink, note: Note, share: float
) -> None:
    """By default, the tests of the pages send forms without their token."""
    headers, other = sign_in(system, sink), sign_in(system, sink)
    page = get(system, SESSIONS, **other)
    foreign = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    own_site = {"Sec-Fetch-Site": "same-origin"}
    # The form that takes a file carries its token in it; tests/service/pages try that one.
    others = ("/api/", "/otlp/", "/admin", "/upload")
    pages = [one for one in _unsafe_routes() if not one[1].startswith(others)]
    forms = ({"x": "y"}, {"csrf_token": "x"}, {"csrf_token": foreign})
    answers = [
        requests.request(
            method, f"{system.base_url}{path}", headers={**headers, **own_site}, data=form
        )
        for number, (method, path) in enumerate(pages)
        for form in in_turn(forms, number, share)
    ]
    losses = sum(answer.status_code != 403 for answer in answers)
    losses += not is_signed_in(system, headers)
    note("23 forms without their own token are refused", len(answers), losses)


def _cookies_after(page: requests.Response, headers: dict[str, str]) -> dict[str, str]:
    """The browser's cookies once it has the page, which may have added its token's other half."""
    return cookies_of(page) if "Set-Cookie" in page.headers else headers


def _unsafe_routes() -> list[tuple[str, str]]:
    nowhere = Config(
        secret_key="a secret key for tests, 32 or longer",
        database_url="postgresql://nobody@/none?host=/nowhere",
        redis_url="unix:///nowhere/valkey.sock",
        storage_url="file:///proc/nowhere",
    )
    return sorted(
        (method, re.sub(r"<[^>]+>", "x", rule.rule))
        for rule in create_app(nowhere).url_map.iter_rules()
        if rule.rule not in OAUTH_CALLS  # no cookie counts there, but the client's own secret
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
    )


def test_a_signed_out_visitor_is_led_to_sign_in_and_back(system: System) -> None:
    answer = get(system, f"{SESSIONS}?a=b")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=/settings/sessions?a%3Db"
    form = get(system, answer.headers["Location"]).text
    assert 'name="next" value="/settings/sessions?a=b"' in form
