"""The rate limits of sign-in and early access are exact, per person or address, and hold
against forged headers.
"""

from collections import Counter
from collections.abc import Callable
from uuid import uuid4

import pytest
import requests
from flask import Flask
from redis import Redis
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from service.models import MagicLink, Mail
from service.models.base import utc_now
from tests.service.support.live import LiveService
from tests.service.support.scenes import Sessions, error_of, sign_in
from tests.worker.support.promises import Note, always_in_full, sampled

MAGIC_LINK, EARLY_ACCESS = PATHS = ("/auth/magic-link", "/api/v1/early-access")


@pytest.fixture(autouse=True)
def _fresh_limits(redis_url: str) -> None:
    """Whatever was counted by this machine's address before is forgotten."""
    with Redis.from_url(redis_url) as redis:
        redis.flushall()


def _ask(live: LiveService, path: str, headers: dict[str, str]) -> requests.Response:
    body = {"email": f"{uuid4().hex}@example.org"}
    return requests.post(f"{live.url}{path}", json=body, headers=headers, timeout=60)


@always_in_full
@pytest.mark.parametrize("path", sampled(PATHS, 2))
def test_five_of_fifteen_pass(live: LiveService, note: Note, path: str, occasion: str) -> None:
    """From one address, and as often again for each person who is signed in there."""
    people = [live.sign_in(f"{uuid4().hex}@example.org") for _ in range(2)]
    people += [
        {},
        live.sign_in("two-browsers@example.org"),
        live.sign_in("two-browsers@example.org"),
    ]
    answers = [[_ask(live, path, headers) for _ in range(15)] for headers in people]
    passed = [sum(one.status_code == 200 for one in of_one) for of_one in answers]
    refused = [one for of_one in answers for one in of_one if one.status_code == 429]
    losses = int(passed != [5, 5, 5, 5, 0]) + int(len(refused) != 55)
    losses += sum(not 1 <= int(one.headers["Retry-After"]) <= 60 for one in refused)
    losses += sum(one.json()["error"]["code"] != "rate_limited" for one in refused)
    note(f"20 exactly 5 of 15 pass: {path}", 15 * len(people), losses)


@always_in_full
@pytest.mark.parametrize("path", sampled(PATHS[::-1], 2))
def test_fifty_forged_addresses_do_not_help(
    live: LiveService, note: Note, path: str, occasion: str
) -> None:
    statuses = Counter(
        _ask(
            live,
            path,
            {
                "X-Forwarded-For": f"10.0.0.{number}",
                "X-Real-IP": f"10.0.1.{number}",
                "Forwarded": f"for=10.0.2.{number}",
            },
        ).status_code
        for number in range(50)
    )
    note(f"20 50 forged X-Forwarded-For do not help: {path}", 50, statuses != {200: 5, 429: 45})


@pytest.mark.parametrize("path", PATHS)
def test_a_forged_session_counts_by_address(live: LiveService, path: str) -> None:
    cookies = [{"Cookie": f"tallystick_session={number}"} for number in range(15)]
    assert [_ask(live, path, one).status_code for one in cookies] == [200] * 5 + [429] * 10


@pytest.mark.parametrize("path", PATHS)
def test_the_limit_comes_before_the_body_is_judged(
    share_app: Callable[..., Flask], sessions: Sessions, path: str
) -> None:
    client = share_app(magic_link_limit_per_minute=5).test_client(use_cookies=False)
    headers = sign_in(sessions, f"{uuid4().hex}@example.org")
    statuses = [client.post(path, json={}, headers=headers).status_code for _ in range(6)]
    assert statuses == [422] * 5 + [429]
    error_of(client.post(path, json={}, headers=headers), 429, "rate_limited")


def test_the_limit_is_a_setting(share_app: Callable[..., Flask], sessions: Sessions) -> None:
    client = share_app(magic_link_limit_per_minute=2).test_client(use_cookies=False)
    headers = sign_in(sessions, f"{uuid4().hex}@example.org")
    for path in PATHS:
        answers = [client.post(path, json={}, headers=headers) for _ in range(5)]
        assert sum(one.status_code == 422 for one in answers) == 2


def test_an_ipv6_network_counts_as_one_address(share_app: Callable[..., Flask]) -> None:
    client = share_app(magic_link_limit_per_minute=5).test_client(use_cookies=False)
    for path in PATHS:
        neighbors = [f"2001:db8:7:{number % 2}::{number:x}" for number in range(30)]
        answers = [
            client.post(path, json={}, environ_base={"REMOTE_ADDR": address}).status_code
            for address in neighbors
        ]
        assert answers == [422] * 10 + [429] * 20  # two networks
    mapped = [f"::ffff:10.0.0.{number}" for number in range(1, 9)]
    for address in mapped:
        answer = client.post(MAGIC_LINK, json={}, environ_base={"REMOTE_ADDR": address})
        assert answer.status_code == 422


def test_a_recipient_gets_no_more_links_than_it_can_use(
    share_app: Callable[..., Flask], db_session: Session
) -> None:
    app = share_app(magic_link_limit_per_recipient=5)
    client, victim = app.test_client(use_cookies=False), "victim@example.org"
    answers = {
        (answer.status_code, answer.get_data())
        for number in range(30)
        for answer in [
            client.post(
                MAGIC_LINK,
                json={"email": victim},
                environ_base={"REMOTE_ADDR": f"2001:db8:{number:x}::1"},
            )
        ]
    }
    assert len(answers) == 1
    mails = select(Mail).where(Mail.recipient == victim)
    assert len(db_session.scalars(mails).all()) == 5
    db_session.execute(
        update(MagicLink).where(MagicLink.email == victim).values(ended_at=utc_now())
    )
    db_session.commit()
    assert client.post(MAGIC_LINK, json={"email": victim}).status_code == 200
    assert len(db_session.scalars(mails).all()) == 6
