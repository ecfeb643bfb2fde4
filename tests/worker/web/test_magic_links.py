"""Sign in through gunicorn and a real mail server: each link once, without revealing anything."""

import re
import statistics
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from service.core.tokens import Kind, find_hash
from tests.cases import each_case
from tests.smtp_sink import Sink
from tests.worker.support.mailing import (
    JSON,
    SESSIONS,
    ask_for_link,
    confirm,
    cookies_of,
    count_sessions,
    get,
    is_new_session,
    new_address,
    post,
    set_cookies,
    sign_in,
    wait_for_link,
    wait_for_links,
)
from tests.worker.support.promises import Note, always_in_full, at_both_scales, in_full_only, scaled
from tests.worker.support.system import System

EARLY_ACCESS = "/api/v1/early-access"


@pytest.fixture
def system(mailing_system: System) -> System:
    return mailing_system


def test_a_mailed_link_signs_in_and_leads_on(system: System, sink: Sink) -> None:
    email = new_address()
    answer = ask_for_link(system, email.upper(), more={"next": "/settings/sessions"})
    assert (answer.status_code, list(answer.json())) == (200, ["message"])
    signed_in = get(system, wait_for_link(sink, email), **cookies_of(answer))
    assert signed_in.status_code == 200
    assert signed_in.headers["Content-Type"].startswith("text/html")
    assert 'http-equiv="refresh" content="0; url=/settings/sessions"' in signed_in.text
    assert signed_in.headers["Cache-Control"] == "no-store"
    assert f"<summary>{email}</summary>" in signed_in.text
    for cookie in set_cookies(signed_in):
        assert cookie.startswith("__Host-tallystick_")
        for attribute in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Expires="):
            assert attribute in cookie
        assert "Domain" not in cookie
    page = get(system, SESSIONS, **cookies_of(signed_in))
    assert email in page.text
    [(accounts,)] = system.rows("SELECT count(*) FROM accounts WHERE email = :e", e=email)
    assert accounts == 1


def test_a_browser_signs_in_with_the_form(system: System, sink: Sink) -> None:
    email, page = new_address(), get(system, "/sign-in?next=/upload")
    [token] = re.findall(r'name="csrf_token" value="([^"]+)"', page.text)
    own_site = {"Sec-Fetch-Site": "same-origin", "Origin": "null", "Accept": "text/html,*/*"}
    form = {"csrf_token": token, "email": email, "next": "/upload"}
    answer = post(system, "/auth/magic-link", {**cookies_of(page), **own_site}, data=form)
    assert answer.status_code == 200
    assert "We sent you a sign-in link" in answer.text
    assert email not in answer.text
    assert "url=/upload" in get(system, wait_for_link(sink, email), **cookies_of(answer)).text


def test_a_form_without_a_browser_is_accepted_but_not_without_its_token(
    system: System, sink: Sink
) -> None:
    email = new_address()
    assert post(system, "/auth/magic-link", {}, data={"email": email}).status_code == 200
    headers = sign_in(system, sink)
    for token in ({}, {"csrf_token": "x"}):
        form = {"email": email, **token}
        answer = post(system, "/auth/magic-link", headers, data=form)
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden"


@each_case(
    ("document", "status"),
    [
        (b'{"email": "nobody"}', 422),
        (b'{"email": "nobody@b.c\\nBcc: e@e.e"}', 422),
        (b'{"email": null}', 422),
        (b'{"email": ["nobody@b.c"]}', 422),
        (b'{"address": "nobody@b.c"}', 422),
        (b"[]", 422),
        (b'"nobody@b.c"', 422),
        (b'{"email": "nobody@b.c"', 400),
        (b'{"email": NaN}', 400),
        (b"[" * 4_000, 422),
        (b"[" * 100_000, 413),
        (b"\xff", 400),
        (b"", 400),
    ],
)
def test_what_is_no_address_is_rejected_without_repeating_it(
    system: System, document: bytes, status: int
) -> None:
    for path in ("/auth/magic-link", EARLY_ACCESS):
        answer = post(system, path, JSON, data=document)
        assert answer.status_code == status, answer.text
        assert set(answer.json()["error"]) == {"code", "message", "request_id"}
        assert "nobody" not in answer.text


def test_other_types_of_body_are_rejected(system: System) -> None:
    for path in ("/auth/magic-link", EARLY_ACCESS):
        for headers in ({"Content-Type": "text/plain"}, {}):
            assert post(system, path, headers, data=b"ada@example.org").status_code == 415
    assert post(system, EARLY_ACCESS, {}, data={"email": "ada@example.org"}).status_code == 415
    assert post(system, "/auth/magic-link", {}, data={"mail": "x"}).status_code == 422


@each_case("next_path", [1, [], {}, True])
def test_a_next_that_is_no_text_is_rejected(system: System, next_path: object) -> None:
    answer = ask_for_link(system, new_address(), more={"next": next_path})
    assert answer.status_code == 422


def test_a_browser_gets_a_page(system: System) -> None:
    answer = post(system, "/auth/magic-link", {"Accept": "text/html"}, data={"email": "x"})
    assert answer.status_code == 422
    assert answer.headers["Content-Type"].startswith("text/html")


@always_in_full
def test_a_link_works_once(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """Fifty at once (by default ten), after HEAD and prefetching, which use nothing up."""
    count = 50 if occasion == "stress" else 10
    email = new_address()
    browser = cookies_of(ask_for_link(system, email))
    link = wait_for_link(sink, email)
    url = f"{system.base_url}{link}"
    looked = [requests.head(url, headers=browser, timeout=60) for _ in range(3)]
    looked += [get(system, link, **browser, **headers) for headers in PREFETCHES]
    losses = sum(one.status_code != 200 or is_new_session(one) for one in looked)
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda _: get(system, link, **browser), range(count)))
    losses += Counter(one.status_code for one in answers) != {200: 1, 422: count - 1}
    losses += sum(is_new_session(one) for one in answers) != 1
    losses += count_sessions(system, email) != 1
    tries = count + len(looked)
    note(f"22 magic links work once: {count} at once, HEAD, prefetching", tries, losses)


PREFETCHES: tuple[dict[str, str], ...] = (
    {"Sec-Purpose": "prefetch"},
    {"Sec-Purpose": "prefetch;prerender"},
    {"Purpose": "prefetch"},
    {"X-Purpose": "preview"},
    {"X-Moz": "prefetch"},
)


@always_in_full
def test_a_link_ends(system: System, sink: Sink, note: Note, occasion: str) -> None:
    """After 15 minutes, by the use of a later link, and when it has been used."""
    late, early = _links(system, sink, 2)[1], _links(system, sink, 2)[1]
    _age(system, late, "15 minutes 1 second")
    _age(system, early, "14 minutes")  # which leaves a busy machine a minute to use it
    older, newer = _links(system, sink, 2)
    first, second = _links(system, sink, 2)
    tried = [(late, 422), (early, 200), (early, 422), (newer, 200), (older, 422)]
    tried += [(first, 200), (second, 200), (first, 422)]
    tried += [(f"/auth/verify?token={text}", 422) for text in ("", "x", "ml_" + "0" * 38, "%00")]
    tried += [("/auth/verify", 422)]
    answers = [(confirm(system, link), status) for link, status in tried]
    losses = sum(answer.status_code != status for answer, status in answers)
    losses += sum(is_new_session(answer) != (status == 200) for answer, status in answers)
    note("22 magic links end: at 15:01, by a later one, once used", len(tried), losses)


def _links(system: System, sink: Sink, count: int, email: str | None = None) -> list[str]:
    """Links to one address, the oldest first."""
    email, links = email or new_address(), list[str]()
    for number in range(count):
        ask_for_link(system, email)
        wait_for_links(sink, email, number + 1)
        links.append(wait_for_link(sink, email))
    return links


@at_both_scales
def test_links_of_one_new_address_may_be_used_at_once(
    system: System, sink: Sink, share: float
) -> None:
    """They wait for each other in one order, and there is one account in the end."""
    count = 12 if share == 1 else 3
    for _ in range(scaled(10, share)):
        email = new_address()
        links = _links(system, sink, count, email)
        with ThreadPoolExecutor(count) as pool:
            statuses = list(pool.map(lambda link: confirm(system, link).status_code, links))
        assert set(statuses) <= {200, 422}
        assert statuses[-1] == 200
        assert count_sessions(system, email) == statuses.count(200)


def _age(system: System, link: str, age: str) -> None:
    """Make the newest link of the address that it was mailed to as old as this."""
    query = "UPDATE magic_links SET created_at = created_at - CAST(:age AS interval),"
    query += " expires_at = expires_at - CAST(:age AS interval) WHERE secret_hash = :hash"
    system.execute(query, age=age, hash=find_hash(Kind.MAGIC_LINK, link.partition("=")[2]))


@at_both_scales
def test_known_and_unknown_addresses_are_answered_alike(
    system: System, sink: Sink, note: Note, share: float
) -> None:
    """The same bytes, and within 2 ms of the same median, measured in turn on an idle machine.

    The short run has other tests beside it, so it allows half of the median itself.
    """
    known = new_address()
    sign_in(system, sink, known)
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
        allowed_ms = 2 if share == 1 else max(10, statistics.median(times["known"]) * 500)
        if gap_ms < allowed_ms:
            break
    losses = (len(bodies) != 1) + (gap_ms >= allowed_ms)
    tries = len(times["known"]) * 2
    note(f"25 known and unknown are answered alike (gap {gap_ms:.2f} ms)", tries, losses)


def _shape(answer: requests.Response) -> tuple[tuple[str, str], ...]:
    """The headers, but for the time, the request's own id and the browser's new cookie."""
    own = {"date", "x-request-id", "set-cookie"}
    return tuple((name, value) for name, value in answer.headers.items() if name.lower() not in own)


def _median_gap_ms(times: dict[str, list[float]]) -> float:
    return abs(statistics.median(times["known"]) - statistics.median(times["unknown"])) * 1000


@in_full_only
def test_limits_outlive_redis(system: System, note: Note, share: float) -> None:
    """By default, `test_ingest_limits.py` does without Redis, with the same limits."""
    system.servers.stop_redis()
    statuses = list[int]()
    ends_at = time.monotonic() + 60 * share
    while time.monotonic() < ends_at:
        statuses.append(ask_for_link(system, new_address()).status_code)
        early = post(system, EARLY_ACCESS, {}, json={"email": new_address()})
        statuses.append(early.status_code)
        time.sleep(0.2)
    system.servers.start_redis()
    losses = sum(status != 200 for status in statuses)
    note("21 sign-in and early access answer without Redis", len(statuses), losses)


def test_asking_again_for_early_access_is_answered_the_same(system: System) -> None:
    email = new_address()
    answers = [
        post(system, EARLY_ACCESS, {}, json={"email": one}) for one in (email, email.upper())
    ]
    assert [one.status_code for one in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    [(count,)] = system.rows("SELECT count(*) FROM early_access WHERE email = :e", e=email)
    assert count == 1
