"""The application with both payment providers configured."""

from collections.abc import Callable

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.service.payments.providers import PADDLE, SETTINGS, STRIPE

Deliver = Callable[[dict[str, object]], TestResponse]


@pytest.fixture
def app(share_app: Callable[..., Flask]) -> Flask:
    return share_app(**SETTINGS)


@pytest.fixture
def deliver(client: FlaskClient) -> Deliver:
    """Sends an event as its provider would, and expects it to be taken."""

    def send(document: dict[str, object]) -> TestResponse:
        provider = PADDLE if "event_id" in document else STRIPE
        body, headers = provider.signed(document)
        response = client.post(provider.path, data=body, headers=headers)
        assert response.status_code == 200, response.get_data(as_text=True)
        assert response.get_json() == {"received": True}
        return response

    return send
