"""Large bodies are received into files, and take memory one after another."""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from flask import Flask, g
from flask.testing import FlaskClient

from service.core.telemetry.counters import REFUSED_BODIES
from service.errors import UnavailableError
from service.web.http import bodies
from service.web.http.bodies import SPOOLED_BYTES
from service.web.http.current import WITHOUT_SLOT
from service.web.http.shares import Shares
from tests.cases import each_case
from tests.service.support.scenes import Tenant, error_of, record
from tests.worker.support.waiting import wait_until

PATH = "/api/v1/ingest"


def _large() -> bytes:
    body = json.dumps({"records": [record(tag="x" * 200) for _ in range(1_500)]}).encode()
    assert len(body) > SPOOLED_BYTES
    return body


def _post(client: FlaskClient, tenant: Tenant, body: bytes, **headers: str) -> Any:
    headers |= {"Authorization": f"Bearer {tenant.key}"}
    return client.post(PATH, data=body, content_type="application/json", headers=headers)


@each_case("packed", [False, True])
def test_a_large_body_is_accepted_and_gives_its_memory_back(
    app: Flask, client: FlaskClient, tenant: Tenant, packed: bool
) -> None:
    body = _large()
    options = {"Content-Encoding": "gzip"} if packed else {}
    response = _post(client, tenant, gzip.compress(body) if packed else body, **options)
    assert response.status_code == 201
    assert response.json["records"] == 1_500
    assert app.extensions["body_memory"].taken == 0


def test_a_large_body_that_finds_no_memory_is_refused_and_counted(
    app: Flask, client: FlaskClient, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "WAIT_SECONDS", 0)
    budget, refused = app.extensions["body_memory"], REFUSED_BODIES.labels("memory")._value
    before = refused.get()
    assert budget.take(200_000_000)
    try:
        response = _post(client, tenant, _large())
        assert _post(client, tenant, b'{"records":[]}').status_code == 422  # small ones go on
    finally:
        budget.give_back(200_000_000)
    error_of(response, 503, "unavailable")
    assert int(response.headers["Retry-After"]) > 0
    assert refused.get() == before + 1
    assert _post(client, tenant, _large()).status_code == 201


@each_case(
    ("broken", "status"),
    [
        (lambda _: gzip.compress(b" " * 54_000_000), 413),
        (lambda packed: packed[:-9], 400),
        (lambda packed: packed * 2, 400),
        (lambda packed: packed + b"x", 400),
        (lambda _: b"no gzip", 400),
    ],
)
def test_a_packed_body_that_is_large_or_broken_is_rejected(
    client: FlaskClient, tenant: Tenant, broken: Callable[[bytes], bytes], status: int
) -> None:
    body = broken(gzip.compress(b" " * 400_000))
    response = _post(client, tenant, body, **{"Content-Encoding": "gzip"})
    assert response.status_code == status


def test_no_more_is_taken_than_there_is() -> None:
    shares = Shares(100)
    assert shares.take(500)  # alone
    assert not shares.take(1)
    shares.give_back(500)
    assert shares.take(60)
    assert shares.take(40)
    assert not shares.take(1, 0.01)
    # Who gives up lets those behind take theirs.
    shares = Shares(100)
    assert shares.take(90)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(shares.take, 100, 0.2)
        wait_until(lambda: shares._queue or large.done(), 60)
        small = pool.submit(shares.take, 10, 60)
        assert (large.result(60), small.result(60)) == (False, True)
    assert shares.taken == 100


def test_shares_are_given_in_the_order_of_asking() -> None:
    """A large body would wait forever if the small ones that come later overtook it."""
    shares, given = Shares(100), list[int]()

    def ask(share: int) -> None:
        assert shares.take(share, 60)
        given.append(share)
        shares.give_back(share)

    assert shares.take(90)
    with ThreadPoolExecutor(2) as pool:
        large = pool.submit(ask, 100)
        wait_until(lambda: len(shares._queue) == 1, 60)
        small = pool.submit(ask, 3)
        wait_until(lambda: len(shares._queue) == 2, 60)
        assert not shares.take(1)  # which would fit, but others came first
        shares.give_back(90)
        large.result(60)
        small.result(60)
    assert given == [100, 3]
    assert shares.taken == 0


def test_a_request_waits_for_memory_that_another_returns_without_a_slot(app: Flask) -> None:
    """And returns it where it finds no slot afterwards."""
    budget, has_slot = app.extensions["body_memory"], [True]
    for finds_slot in (True, False):
        budget.take(150_000_000)
        release = threading.Timer(0.05, budget.give_back, [150_000_000])

        @contextmanager
        def without_slot() -> Iterator[None]:
            has_slot.append(False)
            release.start()  # noqa: B023
            yield
            if not finds_slot:  # noqa: B023
                raise UnavailableError
            has_slot.append(True)

        with app.test_request_context(environ_overrides={WITHOUT_SLOT: without_slot}):
            with nullcontext() if finds_slot else pytest.raises(UnavailableError):
                bodies._take_memory(100_000_000)
            release.join()
            assert budget.taken == 100_000_000
            assert not finds_slot or g.body_bytes == 100_000_000
        assert budget.taken == 0
    assert has_slot == [True, False, True, False]


def test_a_large_body_is_received_without_a_slot(client: FlaskClient, tenant: Tenant) -> None:
    """A slot for each of its parts would take longest where many bodies arrive."""
    left = []

    @contextmanager
    def without_slot() -> Iterator[None]:
        left.append(True)
        yield

    headers = {"Authorization": f"Bearer {tenant.key}"}
    options = {"environ_overrides": {WITHOUT_SLOT: without_slot}, "headers": headers}
    response = client.post(PATH, data=_large(), content_type="application/json", **options)
    assert response.status_code == 201
    assert left == [True]
