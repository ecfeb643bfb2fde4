"""/.well-known/security.txt, as RFC 9116 wants it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient

from service.config import Config
from service.errors import ConfigError
from tests.cases import each_case

PATH = "/.well-known/security.txt"


def _fields(app: Flask) -> list[tuple[str, str]]:
    answer = app.test_client().get(PATH)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    lines = answer.get_data(as_text=True).splitlines()
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def test_it_names_the_contacts_in_order_and_expires_within_a_year(
    share_app: Callable[..., Flask],
) -> None:
    contacts = "mailto:security@example.org https://example.org/report tel:+49123"
    fields = _fields(share_app(security_contact=contacts, base_url="https://tallystick.example"))
    assert [value for name, value in fields if name == "Contact"] == contacts.split()
    [expires] = [value for name, value in fields if name == "Expires"]
    left = datetime.fromisoformat(expires) - datetime.now(UTC)
    assert timedelta(days=30) < left < timedelta(days=366)
    assert ("Canonical", f"https://tallystick.example{PATH}") in fields
    assert ("Preferred-Languages", "en") in fields


def test_the_operators_email_address_is_the_contact_if_there_is_no_other(
    share_app: Callable[..., Flask],
) -> None:
    fields = _fields(share_app(operator_contact="ops@example.org"))
    assert ("Contact", "mailto:ops@example.org") in fields


@pytest.mark.parametrize("contact", ["", "1 Example Street, Berlin", "a@b, c@d", "<a@b>"])
def test_without_a_contact_it_does_not_exist(share_app: Callable[..., Flask], contact: str) -> None:
    assert share_app(operator_contact=contact).test_client().get(PATH).status_code == 404


def test_by_default_it_does_not_exist(client: FlaskClient) -> None:
    assert client.get(PATH).status_code == 404


@each_case(
    "contact", ["security@example.org", "http://example.org", "mailto:x", "javascript:x@y", "tel:x"]
)
def test_a_contact_that_is_no_uri_stops_the_start(contact: str) -> None:
    required = {"SECRET_KEY": "x" * 32, "DATABASE_URL": "postgresql://", "REDIS_URL": "redis://"}
    with pytest.raises(ConfigError, match="SECURITY_CONTACT"):
        Config.from_environment(
            {**required, "STORAGE_URL": "file:///x", "SECURITY_CONTACT": contact}
        )
