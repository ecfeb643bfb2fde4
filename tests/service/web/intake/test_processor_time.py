"""A file may take so much processor time, and rejected files may take so much in a day."""

from collections.abc import Callable
from typing import Final

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.adversarial.files import FILES
from tests.service.support.scenes import AUDITS, Sessions, error_of
from tests.service.support.uploads import (
    MULTIPART,
    Person,
    add_person,
    free_credits,
    log_file,
    multipart,
    one_file,
)
from tests.worker.support.promises import sampled

MakeApp = Callable[..., Flask]
SLOW: Final = ("lines of letters", "gzip members without content", "elements of numbers")
LIMITS: Final = {"upload_limit_per_minute": 100_000}


def _send(client: FlaskClient, person: Person, body: bytes) -> TestResponse:
    headers = {**person.headers, "Content-Type": MULTIPART}
    return client.post(AUDITS, data=body, headers=headers)


@pytest.mark.parametrize("name", sampled(SLOW, 3))
def test_a_file_that_takes_too_long_is_rejected(
    share_app: MakeApp, sessions: Sessions, name: str
) -> None:
    client = share_app(upload_cpu_seconds=0.01, **LIMITS).test_client(use_cookies=False)
    person, body = add_person(sessions, 1), one_file(FILES[name](1_500_000))
    assert error_of(_send(client, person, body), 422, "validation_error") == (
        "This file takes more than 0.01 seconds to check. Split it into smaller files."
    )
    assert free_credits(sessions, person) == 1


def test_receiving_a_file_counts_as_well(share_app: MakeApp, sessions: Sessions) -> None:
    client = share_app(upload_cpu_seconds=0.000_1, **LIMITS).test_client(use_cookies=False)
    answer = _send(client, add_person(sessions, 1), one_file(log_file(20_000)))
    assert "seconds to check" in error_of(answer, 422, "validation_error")


@pytest.mark.parametrize("redis", ["with", "without"])
def test_rejected_files_have_a_daily_limit(
    share_app: MakeApp, sessions: Sessions, redis: str
) -> None:
    """Of one second: each takes a tenth at least. One credit does not serve forever."""
    settings = {} if redis == "with" else {"redis_url": "redis://127.0.0.1:1/0"}
    app = share_app(refused_upload_seconds_per_day=1, **LIMITS, **settings)
    client, person, other = (
        app.test_client(use_cookies=False),
        add_person(sessions, 1),
        add_person(sessions, 1),
    )
    statuses = [_send(client, person, one_file(b"no log")).status_code for _ in range(12)]
    assert statuses == [422] * 10 + [429] * 2
    answer = _send(client, person, one_file(log_file()))
    message = error_of(answer, 429, "rate_limited")
    assert "rejected in the last 24 hours" in message
    assert 80_000 <= int(answer.headers["Retry-After"]) <= 86_400
    assert free_credits(sessions, person) == 1
    assert _send(client, other, one_file(log_file())).status_code == 201


def test_a_file_that_takes_longer_than_what_is_left_uses_it_up(
    share_app: MakeApp, sessions: Sessions
) -> None:
    settings = {"refused_upload_seconds_per_day": 1, "upload_cpu_seconds": 0.3}
    client = share_app(**settings, **LIMITS).test_client(use_cookies=False)
    person, body = add_person(sessions, 1), one_file(FILES["lines of letters"](1_500_000))
    short = [_send(client, person, one_file(b"no log")).status_code for _ in range(8)]
    assert short == [422] * 8  # a tenth of a second each
    assert [_send(client, person, body).status_code for _ in range(2)] == [422, 429]


def test_what_is_not_a_rejected_file_does_not_count(share_app: MakeApp, sessions: Sessions) -> None:
    app = share_app(refused_upload_seconds_per_day=1, **LIMITS)
    client, person = app.test_client(use_cookies=False), add_person(sessions, 12)
    assert [_send(client, person, one_file(log_file())).status_code for _ in range(12)] == [
        201
    ] * 12
    without = add_person(sessions)
    assert [_send(client, without, one_file(b"")).status_code for _ in range(12)] == [402] * 12


def test_a_malformed_body_counts_as_well(share_app: MakeApp, sessions: Sessions) -> None:
    app = share_app(refused_upload_seconds_per_day=1, **LIMITS)
    client, person = app.test_client(use_cookies=False), add_person(sessions, 1)
    bodies = [b"no multipart"] * 5 + [multipart([("name=x", b"")])] * 5
    statuses = [_send(client, person, body).status_code for body in bodies]
    assert statuses == [400] * 5 + [422] * 5
    assert _send(client, person, one_file(log_file())).status_code == 429
