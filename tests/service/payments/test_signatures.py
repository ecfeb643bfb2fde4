"""An event is accepted only if its provider signed this body within the last five minutes."""

import hmac
import time
from collections.abc import Callable

import pytest
import time_machine
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from service.models import Credit, PaymentEvent
from tests.cases import each_case
from tests.service.payments.forged_requests import forged_requests
from tests.service.payments.providers import PROVIDERS, Provider, each_provider
from tests.service.support.scenes import Tenant, error_of

YEAR = 365 * 86_400


def count(session: Session, table: type[Credit] | type[PaymentEvent]) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


def test_forty_forged_requests_get_the_same_error_and_store_nothing(
    client: FlaskClient, db_session: Session, tenant: Tenant
) -> None:
    tried = 0
    for provider in PROVIDERS:
        for label, (body, headers) in forged_requests(provider, tenant.account_id).items():
            response = client.post(provider.path, data=body, headers=headers)
            message = error_of(response, 400, "bad_request")
            assert "signature" in message.lower(), label
            tried += 1
    assert tried == 40
    assert (count(db_session, Credit), count(db_session, PaymentEvent)) == (0, 0)


@each_provider
def test_five_minutes_are_tolerated_either_way(client: FlaskClient, provider: Provider) -> None:
    now = 1_772_355_600
    with time_machine.travel(now, tick=False):
        for seconds in (0, -299, 299, -300, 300, -301, 301, -YEAR, YEAR):
            body, headers = provider.signed(provider.paid(), at=now + seconds)
            response = client.post(provider.path, data=body, headers=headers)
            assert response.status_code == (200 if abs(seconds) <= 300 else 400), seconds


@each_provider
def test_one_right_signature_among_several_is_enough(
    client: FlaskClient, provider: Provider
) -> None:
    body, headers = provider.signed(provider.paid())
    stamp, right = headers[provider.header].split(provider.separator)
    wrong = f"{provider.signature_key}={'0' * 64}"
    for several in ([stamp, wrong, right], [stamp, right, wrong]):
        header = {provider.header: provider.separator.join(several)}
        assert client.post(provider.path, data=body, headers=header).status_code == 200


@pytest.mark.parametrize("value", ["1", "0", "yes"])
def test_the_environment_switches_no_check_off(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TEST_MODE", value)
    for provider in PROVIDERS:
        for seconds in (-301, YEAR):
            with time_machine.travel(1_772_355_600, tick=False):
                body, headers = provider.signed(provider.paid(), at=1_772_355_600 + seconds)
                response = client.post(provider.path, data=body, headers=headers)
                assert response.status_code == 400


@each_provider
@each_case(
    ("body", "status"),
    [
        (b"", 400),
        (b"no JSON", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b'{"id": NaN}', 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"{}", 422),
        (b'{"id": 7, "event_id": 7}', 422),
        (b'{"id": "e", "type": "t", "created": 1e300}', 422),
        (b'{"event_id": "e", "event_type": "t", "occurred_at": "yesterday"}', 422),
    ],
)
def test_a_signed_body_that_is_no_event_is_rejected(
    client: FlaskClient, db_session: Session, provider: Provider, body: bytes, status: int
) -> None:
    response = client.post(
        provider.path, data=body, headers={provider.header: _sign(provider, body)}
    )
    error_of(response, status, "bad_request" if status == 400 else "validation_error")
    assert count(db_session, PaymentEvent) == 0


@each_provider
def test_a_body_larger_than_any_event_is_rejected(client: FlaskClient, provider: Provider) -> None:
    body = b" " * (256 * 1024 + 1)
    response = client.post(
        provider.path, data=body, headers={provider.header: _sign(provider, body)}
    )
    error_of(response, 413, "payload_too_large")


@each_provider
def test_a_provider_without_a_secret_is_not_there(
    share_app: Callable[..., Flask], provider: Provider
) -> None:
    other = next(one for one in PROVIDERS if one is not provider)
    client = share_app(**{f"{other.name}_webhook_secret": other.secret}).test_client()
    body, headers = provider.signed(provider.paid())
    error_of(client.post(provider.path, data=body, headers=headers), 404, "not_found")
    assert client.get(provider.path).status_code == 405


def _sign(provider: Provider, body: bytes) -> str:
    """The provider's signature of bytes that its own helper would not take."""
    now = int(time.time())
    joint = {"t": ".", "ts": ":"}[provider.time_key]
    digest = hmac.digest(provider.secret.encode(), f"{now}{joint}".encode() + body, "sha256").hex()
    return f"{provider.time_key}={now}{provider.separator}{provider.signature_key}={digest}"
