"""Signing in through gunicorn and a real mail server: once a link, safely, at home, silently."""

import http.client
import re
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from service.app import create_app
from service.config import Config
from service.sessions import COOKIE_NAME
from service.tokens import Kind, find_hash
from tests.smtp_sink import Sink
from tests.worker.mailing import (
    ask_for_link,
    cookies_of,
    new_address,
    wait_for_link,
)
from tests.worker.promises import Note, always_in_full, at_both_scales, scaled
from tests.worker.system import System

SESSIONS = "/settings/sessions"
EARLY_ACCESS = "/api/v1/early-access"
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


def _get(system: System, path: str, **headers: str) -> requests.Response:
    url = f"{system.base_url}{path}"
    return requests.get(url, headers=headers, timeout=30, allow_redirects=False)


def _post(system: System, path: str, headers: dict[str, str], **more: Any) -> requests.Response:
    url = f"{system.base_url}{path}"
    return requests.post(url, headers=headers, timeout=30, allow_redirects=False, **more)


def _sign_in(system: System, sink: Sink, email: str | None = None) -> dict[str, str]:
    """The headers of a browser that was signed in by mail."""
    email = email or new_address()
    before = len(sink.mails_to(email))
    assert ask_for_link(system, email).status_code == 200
    _wait_for_mails(sink, email, before + 1)
    return cookies_of(_get(system, wait_for_link(sink, email)))


def _wait_for_mails(sink: Sink, email: str, count: int) -> None:
    ends_at = time.monotonic() + 20
    while len(sink.mails_to(email)) < count:
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def _is_signed_in(system: System, headers: dict[str, str]) -> bool:
    return _get(system, SESSIONS, **headers).status_code == 200


def test_a_mailed_link_signs_in_and_leads_on(system: System, sink: Sink) -> None:
    email = new_address()
    answer = ask_for_link(system, email.upper(), more={"next": "/settings/sessions"})
    assert (answer.status_code, list(answer.json())) == (200, ["message"])
    signed_in = _get(system, wait_for_link(sink, email))
    assert signed_in.status_code == 200
    assert signed_in.headers["Content-Type"].startswith("text/html")
    assert 'http-equiv="refresh" content="0; url=/settings/sessions"' in signed_in.text
    assert signed_in.headers["Cache-Control"] == "no-store"
    cookie = signed_in.headers["Set-Cookie"]
    for attribute in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Expires="):
        assert attribute in cookie
    assert "Domain" not in cookie
    page = _get(system, SESSIONS, **cookies_of(signed_in))
    assert email in page.text
    [(accounts,)] = system.rows("SELECT count(*) FROM accounts WHERE email = :e", e=email)
    assert accounts == 1


def test_a_browser_signs_in_with_the_form(system: System, sink: Sink) -> None:
    email, page = new_address(), _get(system, "/sign-in?next=/upload")
    [token] = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)
    own_site = {"Sec-Fetch-Site": "same-origin", "Origin": "null", "Accept": "text/html,*/*"}
    form = {"csrf_token": token, "email": email, "next": "/upload"}
    answer = _post(system, "/auth/magic-link", {**cookies_of(page), **own_site}, data=form)
    assert answer.status_code == 200
    assert "A sign-in link is on its way" in answer.text
    assert email not in answer.text
    assert "url=/upload" in _get(system, wait_for_link(sink, email)).text


def test_a_form_without_a_browser_is_taken_and_one_without_its_token_is_not(
    system: System, sink: Sink
) -> None:
    email = new_address()
    assert _post(system, "/auth/magic-link", {}, data={"email": email}).status_code == 200
    headers = _sign_in(system, sink)
    for token in ({}, {"csrf_token": "x"}):
        form = {"email": email, **token}
        answer = _post(system, "/auth/magic-link", headers, data=form)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden"


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/auth/magic-link", EARLY_ACCESS])
@pytest.mark.parametrize(
    ("document", "status"),
    [
        (b'{"email": "nobody"}', 422),
        (b'{"email": "nobody@b.c\\nBcc: e@e.e"}', 422),
        (b'{"email": null}', 422),
        (b'{"email": ["nobody@b.c"]}', 422),
        (b'{"nobody": 1}', 422),
        (b"[]", 422),
        (b'"nobody@b.c"', 422),
        (b'{"email": "nobody@b.c"', 400),
        (b'{"email": NaN}', 400),
        (b"[" * 100_000, 400),
        (b"\xff", 400),
        (b"", 400),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(
    system: System, path: str, document: bytes, status: int
) -> None:
    answer = _post(system, path, JSON, data=document)
    assert answer.status_code == status, answer.text
    assert set(answer.json()["error"]) == {"code", "message", "request_id"}
    assert "nobody" not in answer.text


def test_other_types_of_body_are_refused(system: System) -> None:
    for path in ("/auth/magic-link", EARLY_ACCESS):
        for headers in ({"Content-Type": "text/plain"}, {}):
            assert _post(system, path, headers, data=b"ada@example.org").status_code == 415
    assert _post(system, EARLY_ACCESS, {}, data={"email": "ada@example.org"}).status_code == 415
    assert _post(system, "/auth/magic-link", {}, data={"mail": "x"}).status_code == 422


@pytest.mark.parametrize("next_path", [1, [], {}, True])
def test_a_next_that_is_no_text_is_refused(system: System, next_path: object) -> None:
    answer = ask_for_link(system, new_address(), more={"next": next_path})
    assert answer.status_code == 422


def test_a_browser_is_told_in_a_page(system: System) -> None:
    answer = _post(system, "/auth/magic-link", {"Accept": "text/html"}, data={"email": "x"})
    assert answer.status_code == 422
    assert answer.headers["Content-Type"].startswith("text/html")


@always_in_full
def test_a_link_works_once(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """Fifty at once, after HEAD and prefetching, which use nothing up."""
    email = new_address()
    ask_for_link(system, email)
    link = wait_for_link(sink, email)
    looked = [requests.head(f"{system.base_url}{link}", timeout=30) for _ in range(3)]
    looked += [_get(system, link, **headers) for headers in PREFETCHES]
    losses = sum(one.status_code != 200 or "Set-Cookie" in one.headers for one in looked)
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda _: _get(system, link), range(50)))
    losses += Counter(one.status_code for one in answers) != {200: 1, 422: 49}
    losses += sum("Set-Cookie" in one.headers for one in answers) != 1
    losses += _count_sessions(system, email) != 1
    note("22 magic links work once: 50 at once, HEAD, prefetching", 50 + len(looked), losses)


PREFETCHES: tuple[dict[str, str], ...] = (
    {"Sec-Purpose": "prefetch"},
    {"Sec-Purpose": "prefetch;prerender"},
    {"Purpose": "prefetch"},
    {"X-Purpose": "preview"},
    {"X-Moz": "prefetch"},
)


def _count_sessions(system: System, email: str) -> int:
    query = "SELECT count(*) FROM sessions JOIN accounts a ON a.id = account_id WHERE email = :e"
    return int(system.rows(query, e=email)[0][0])


@always_in_full
def test_a_link_ends(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """After 15 minutes, by the use of a later link, and when it has been used."""
    late, early = _links(system, sink, 2)[1], _links(system, sink, 2)[1]
    _age(system, late, "15 minutes 1 second")
    _age(system, early, "14 minutes 50 seconds")
    older, newer = _links(system, sink, 2)
    first, second = _links(system, sink, 2)
    tried = [(late, 422), (early, 200), (early, 422), (newer, 200), (older, 422)]
    tried += [(first, 200), (second, 200), (first, 422)]
    tried += [(f"/auth/verify?token={text}", 422) for text in ("", "x", "ml_" + "0" * 38, "%00")]
    tried += [("/auth/verify", 422)]
    answers = [(_get(system, link), status) for link, status in tried]
    losses = sum(answer.status_code != status for answer, status in answers)
    losses += sum(("Set-Cookie" in answer.headers) != (status == 200) for answer, status in answers)
    note("22 magic links end: at 15:01, by a later one, once used", len(tried), losses)


def _links(system: System, sink: Sink, count: int) -> list[str]:
    """Links to one new address, the oldest first."""
    email, links = new_address(), list[str]()
    for number in range(count):
        ask_for_link(system, email)
        _wait_for_mails(sink, email, number + 1)
        links.append(wait_for_link(sink, email))
    return links


def _age(system: System, link: str, age: str) -> None:
    """Make the newest link of the address that it was mailed to as old as this."""
    query = "UPDATE magic_links SET created_at = created_at - CAST(:age AS interval),"
    query += " expires_at = expires_at - CAST(:age AS interval) WHERE secret_hash = :hash"
    system.execute(query, age=age, hash=find_hash(Kind.MAGIC_LINK, link.partition("=")[2]))


@always_in_full
def test_sessions_are_safe(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """A cookie that was there before is not adopted, and one that was signed out is refused."""
    attacker, anonymous = _sign_in(system, sink), cookies_of(_get(system, "/sign-in"))
    losses, tries = 0, 0
    for preset in (attacker, anonymous):
        email = new_address()
        ask_for_link(system, email)
        signed_in = _get(system, wait_for_link(sink, email), **preset)
        mine = cookies_of(signed_in)
        losses += mine == preset or not _is_signed_in(system, mine) or _is_signed_in(system, preset)
        assert email in _get(system, SESSIONS, **mine).text
        out = _post(system, "/auth/logout", mine)
        losses += out.status_code != 200 or _is_signed_in(system, mine)
        losses += f"{COOKIE_NAME}=;" not in out.headers["Set-Cookie"]
        losses += _post(system, "/auth/logout", mine).status_code != 200
        tries += 4
    note("23 preset cookies, and old ones after logout, are refused", tries, losses)


def test_signing_out_twice_or_without_a_session_is_no_error(system: System) -> None:
    for headers in ({}, {"Accept": "text/html"}, {"Cookie": f"{COOKIE_NAME}=x"}):
        assert _post(system, "/auth/logout", headers).status_code == 200


@always_in_full
def test_no_other_site_posts_any_form(
    system: System, sink: Sink, note: Note, occasion: str
) -> None:
    """Every route that takes what could change something, with a session and a token of a form."""
    headers = _sign_in(system, sink)
    page = _get(system, SESSIONS, **headers)
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    # The page may have added the token's other half to the cookie.
    headers = cookies_of(page) if "Set-Cookie" in page.headers else headers
    losses, tries = 0, 0
    for method, path in _unsafe_routes():
        for foreign in FOREIGN:
            url, form = f"{system.base_url}{path}", {"csrf_token": token, "email": "a@example.org"}
            answer = requests.request(
                method, url, headers={**headers, **foreign}, data=form, timeout=30
            )
            refused = 404 if path.startswith("/admin") else 403
            losses += answer.status_code != refused
            tries += 1
    losses += not _is_signed_in(system, headers)
    note("23 cross-origin POSTs to every form are refused", tries, losses)
    assert tries >= 8 * len(FOREIGN)


@always_in_full
def test_no_form_of_a_page_is_taken_without_its_token(
    system: System, sink: Sink, note: Note, occasion: str
) -> None:
    headers, other = _sign_in(system, sink), _sign_in(system, sink)
    page = _get(system, SESSIONS, **other)
    foreign = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    own_site = {"Sec-Fetch-Site": "same-origin"}
    pages = [one for one in _unsafe_routes() if not one[1].startswith(("/api/", "/admin"))]
    answers = [
        requests.request(
            method, f"{system.base_url}{path}", headers={**headers, **own_site}, data=form
        )
        for method, path in pages
        for form in ({"x": "y"}, {"csrf_token": "x"}, {"csrf_token": foreign})
    ]
    losses = sum(answer.status_code != 403 for answer in answers)
    losses += not _is_signed_in(system, headers)
    note("23 forms without their own token are refused", len(answers), losses)


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
        for method in (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}
    )


HOSTS = (
    "evil.example",
    "evil.example:8000",
    "audit.example.evil.example",
    "audit.example@evil.example",
    "audit.example:80@evil.example",
    "evil.example/audit.example",
    "evil.example?audit.example",
    "evil.example#audit.example",
    "127.0.0.1",
    "[::1]",
)


@always_in_full
def test_mailed_links_stay_home(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """Twenty Host and X-Forwarded-Host values; the mail may not go out, but never leads away."""
    asked, losses = list[str](), 0
    for host in HOSTS:
        for headers in ({"Host": host}, {"Host": "audit.example", "X-Forwarded-Host": host}):
            email = new_address()
            forged = {**headers, "X-Forwarded-Proto": "gopher", "X-Forwarded-Prefix": "/evil"}
            forged["Forwarded"] = f"host={host}"
            status, text = _post_as(system, f'{{"email": "{email}"}}', forged)
            losses += status not in (200, 400) or "evil" in text
            asked += [email] if status == 200 else []
    for email in asked:
        _wait_for_mails(sink, email, 1)  # `wait_for_link` checks whose link it is
        link = wait_for_link(sink, email)
        losses += "evil" in link or "evil" in str(sink.mails_to(email)[0])
    note("24 mailed links ignore 20 Host and X-Forwarded-Host values", 2 * len(HOSTS), losses)
    assert len(asked) >= 10


def _post_as(system: System, body: str, headers: dict[str, str]) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(system.base_url).netloc, timeout=30)
    connection.putrequest("POST", "/auth/magic-link", skip_host=True)
    for name, value in {**headers, **JSON, "Content-Length": str(len(body))}.items():
        connection.putheader(name, value)
    connection.endheaders(body.encode())
    answer = connection.getresponse()
    seen = answer.status, f"{answer.headers}{answer.read().decode()}"
    connection.close()
    return seen


@always_in_full
def test_sign_in_leads_on_to_this_site_only(
    system: System, sink: Sink, note: Note, occasion: str
) -> None:
    losses = 0
    for text in FOREIGN_PATHS:
        email = new_address()
        assert ask_for_link(system, email, more={"next": text}).status_code == 200
        page = _get(system, wait_for_link(sink, email))
        losses += 'content="0; url=/"' not in page.text or "Location" in page.headers
        form = requests.get(f"{system.base_url}/sign-in", params={"next": text}, timeout=30)
        losses += 'name="next"' in form.text
    note("24 sign-in leads on to no foreign `next`", len(FOREIGN_PATHS), losses)


FOREIGN_PATHS = (
    "//e.example", "///e.example", "/\\e.example", "\\/e.example", "\\\\e.example", "/\t/e.example",
    "\t//e.example", "/\n/e.example", "/\r\n/e.example", " //e.example", "%09//e.example",
    "/%09/e.example", "/%2F/e.example", "/%5Ce.example", "https://e.example", "https:e.example",
    "javascript:alert(1)", "data:text/html,x", "e.example", "@e.example", "/\u2028/e.example",
)  # fmt: skip


@at_both_scales
def test_known_and_unknown_addresses_are_answered_alike(
    system: System, sink: Sink, note: Note, share: float
) -> None:
    """The same bytes, and within 2 ms of the same median, measured in turn on an idle machine."""
    known = new_address()
    _sign_in(system, sink, known)
    system.kill_process("mail-0")  # its work would be beside the measure
    times: dict[str, list[float]] = {"known": [], "unknown": []}
    bodies = set()
    for _round in range(5):
        for _ in range(scaled(200, share)):
            for kind, email in (("known", known), ("unknown", new_address())):
                began = time.perf_counter()
                answer = ask_for_link(system, email)
                times[kind].append(time.perf_counter() - began)
                bodies.add((answer.status_code, answer.content, _shape(answer)))
        gap_ms = _median_gap_ms(times)
        if gap_ms < 2:
            break
    losses = (len(bodies) != 1) + (gap_ms >= 2)
    tries = len(times["known"]) * 2
    note(f"25 known and unknown are answered alike (gap {gap_ms:.2f} ms)", tries, losses)


def _shape(answer: requests.Response) -> tuple[tuple[str, str], ...]:
    """The headers, but for the time and the request's own id."""
    own = {"date", "x-request-id"}
    return tuple((name, value) for name, value in answer.headers.items() if name.lower() not in own)


def _median_gap_ms(times: dict[str, list[float]]) -> float:
    return abs(statistics.median(times["known"]) - statistics.median(times["unknown"])) * 1000


@at_both_scales
def test_limits_outlive_redis(system: System, note: Note, share: float) -> None:
    system.servers.stop_redis()
    statuses = list[int]()
    ends_at = time.monotonic() + 60 * share
    while time.monotonic() < ends_at:
        statuses.append(ask_for_link(system, new_address()).status_code)
        early = _post(system, EARLY_ACCESS, {}, json={"email": new_address()})
        statuses.append(early.status_code)
        time.sleep(0.2)
    system.servers.start_redis()
    losses = sum(status != 200 for status in statuses)
    note("21 sign-in and early access answer without Redis", len(statuses), losses)


def test_asking_again_for_early_access_is_answered_the_same(system: System) -> None:
    email = new_address()
    answers = [
        _post(system, EARLY_ACCESS, {}, json={"email": one}) for one in (email, email.upper())
    ]
    assert [one.status_code for one in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    [(count,)] = system.rows("SELECT count(*) FROM early_access WHERE email = :e", e=email)
    assert count == 1


def test_sessions_are_listed_and_revoked(system: System, sink: Sink) -> None:
    email = new_address()
    one, two, three = (_sign_in(system, sink, email) for _ in range(3))
    page = _get(system, SESSIONS, **one)
    ids = re.findall(r'action="/settings/sessions/([0-9a-f]+)/revoke"', page.text)
    assert len(ids) == 3
    assert page.text.count("(this one)") == 1
    token = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]
    one = cookies_of(page)
    stranger = _sign_in(system, sink)
    [(of_two,)] = system.rows(
        "SELECT s.id FROM sessions s JOIN accounts a ON a.id = account_id WHERE email = :e"
        " ORDER BY s.created_at OFFSET 1 LIMIT 1", e=email,
    )  # fmt: skip
    form = {"csrf_token": token}
    assert _post(system, f"{SESSIONS}/{of_two}/revoke", one, data=form).status_code == 303
    assert [_is_signed_in(system, who) for who in (one, two, three)] == [True, False, True]
    assert _post(system, f"{SESSIONS}/{of_two}/revoke", one, data=form).status_code == 404
    assert _post(system, f"{SESSIONS}/revoke-others", one, data=form).status_code == 303
    assert [_is_signed_in(system, who) for who in (one, three)] == [True, False]
    assert _is_signed_in(system, stranger)


def test_a_session_of_somebody_else_is_as_missing_as_none(system: System, sink: Sink) -> None:
    mine, email = _sign_in(system, sink), new_address()
    _sign_in(system, sink, email)
    [(foreign,)] = system.rows(
        "SELECT s.id FROM sessions s JOIN accounts a ON a.id = account_id WHERE email = :e", e=email
    )
    page = _get(system, SESSIONS, **mine)
    form = {"csrf_token": re.findall(r'name="csrf_token" value="([^"]+)"', page.text)[0]}
    pages = [
        _post(system, f"{SESSIONS}/{one}/revoke", cookies_of(page), data=form)
        for one in (foreign, "0" * 32)
    ]
    assert [one.status_code for one in pages] == [404, 404]
    texts = {re.sub(r"request [0-9a-f]+", "", one.text) for one in pages}
    assert len(texts) == 1
    assert _count_sessions(system, email) == 1


def test_a_signed_out_visitor_is_led_to_sign_in_and_back(system: System) -> None:
    answer = _get(system, f"{SESSIONS}?a=b")
    assert answer.status_code == 303
    assert answer.headers["Location"] == "/sign-in?next=/settings/sessions?a%3Db"
    form = _get(system, answer.headers["Location"]).text
    assert 'name="next" value="/settings/sessions?a=b"' in form
