"""The limit of uploads is exact, per person or else per address, and holds without Redis."""

import http.client
import io
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.service.support.live import LiveService, start_live_service, stop_live_service
from tests.service.support.scenes import AUDITS, Sessions
from tests.service.support.uploads import (
    MULTIPART,
    Person,
    add_person,
    free_credits,
    log_file,
    one_file,
)
from tests.worker.support.promises import Note, always_in_full

MakeApp = Callable[..., Flask]
SIGNED_OUT = Person("", "", {})


def _address() -> str:
    """An address that no other test counts by."""
    return "fd00::" + ":".join(uuid4().hex[i : i + 4] for i in range(0, 16, 4))


def _upload(
    client: FlaskClient, person: Person, address: str, forwarded: str | None = None
) -> TestResponse:
    headers = dict(person.headers)
    if forwarded is not None:
        headers["X-Forwarded-For"] = forwarded
    return client.post(
        AUDITS,
        data={"file": (io.BytesIO(log_file()), "usage.jsonl")},
        headers=headers,
        environ_base={"REMOTE_ADDR": address},
    )


@pytest.fixture
def client(share_app: MakeApp) -> FlaskClient:
    """With the default limit."""
    return share_app().test_client(use_cookies=False)


@pytest.fixture
def without_redis(share_app: MakeApp) -> FlaskClient:
    return share_app(redis_url="redis://127.0.0.1:1/0").test_client(use_cookies=False)


@pytest.fixture(scope="module")
def limited(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveService]:
    """gunicorn with two workers, and the default limit."""
    folder = tmp_path_factory.mktemp("limited")
    service = start_live_service(database_url, redis_url, folder, upload_limit_per_minute=10)
    yield service
    stop_live_service(service)


def _send(live: LiveService, person: Person, source: str = "127.0.0.1", **headers: str) -> int:
    """Upload from an address of this machine; returns the status."""
    address = urlsplit(live.url)
    connection = http.client.HTTPConnection(
        str(address.hostname), address.port, timeout=30, source_address=(source, 0)
    )
    headers |= {**person.headers, "Content-Type": MULTIPART}
    connection.request("POST", AUDITS, one_file(log_file()), headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    if response.status == 429:
        assert 1 <= int(response.headers["Retry-After"]) <= 60
    return response.status


@always_in_full
def test_of_thirty_uploads_in_a_minute_exactly_ten_pass(
    limited: LiveService, note: Note, occasion: str
) -> None:
    person = add_person(limited.sessions, 30)
    with ThreadPoolExecutor(6) as pool:
        statuses = Counter(pool.map(lambda _: _send(limited, person), range(30)))
    assert free_credits(limited.sessions, person) == 20
    losses = abs(statuses[201] - 10) + abs(statuses[429] - 20)
    note("20 of 30 uploads a minute exactly 10 pass", 30, losses)


@always_in_full
def test_signed_out_visitors_are_limited_by_address_and_forged_addresses_do_not_help(
    limited: LiveService, note: Note, occasion: str
) -> None:
    source = f"127.{uuid4().int % 200 + 1}.{uuid4().int % 200}.1"  # nobody else counts by it
    forged_headers = [{"X-Forwarded-For": _address(), "X-Real-IP": _address()} for _ in range(50)]
    statuses = Counter(_send(limited, SIGNED_OUT, source, **forged) for forged in forged_headers)
    losses = abs(statuses[401] - 10) + abs(statuses[429] - 40)
    note("20 a forged X-Forwarded-For buys no more uploads", 50, losses)


def test_each_person_has_a_limit_of_their_own_even_at_one_address(
    client: FlaskClient, sessions: Sessions
) -> None:
    address = _address()
    for person in (add_person(sessions, 11), add_person(sessions, 11)):
        statuses = [_upload(client, person, address).status_code for _ in range(11)]
        assert statuses == [201] * 10 + [429]


def test_a_rejected_upload_counts_as_well(client: FlaskClient, sessions: Sessions) -> None:
    person = add_person(sessions)
    statuses = [_upload(client, person, _address()).status_code for _ in range(11)]
    assert statuses == [402] * 10 + [429]


def test_the_limit_comes_before_the_session(client: FlaskClient) -> None:
    address = _address()
    assert [_upload(client, SIGNED_OUT, address).status_code for _ in range(11)][-1] == 429


@always_in_full
def test_the_limit_holds_without_redis_and_nothing_breaks(
    without_redis: FlaskClient, sessions: Sessions, note: Note, occasion: str
) -> None:
    person = add_person(sessions, 30)
    statuses = [_upload(without_redis, person, _address()).status_code for _ in range(30)]
    assert statuses == [201] * 10 + [429] * 20
    note("21 without Redis uploads are limited all the same", 30, statuses.count(500))


def test_the_402_has_a_link_for_each_provider_that_is_configured(
    share_app: MakeApp, sessions: Sessions
) -> None:
    links = {
        "stripe_credit_link": "https://buy.stripe.com/x",
        "paddle_credit_link": "https://pay.example.com/y?z=1",
    }
    secrets = {"stripe_webhook_secret": "whsec_x", "paddle_webhook_secret": "pdl_x"}
    client, person = (
        share_app(**links, **secrets).test_client(use_cookies=False),
        add_person(sessions),
    )
    response = _upload(client, person, _address())
    assert response.status_code == 402
    listed = response.get_json()["error"]["payment_links"]
    assert [set(link) for link in listed] == [{"provider", "url"}] * 2
    assert [link["provider"] for link in listed] == ["stripe", "paddle"]
    for link, url in zip(listed, links.values(), strict=True):
        assert link["url"].startswith(url)
        assert person.account_id in link["url"]
