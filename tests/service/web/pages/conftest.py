"""Fixtures for the tests of the pages."""

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.service.support.scenes import Sessions
from tests.service.support.uploads import Person, add_person


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


@pytest.fixture
def person(sessions: Sessions) -> Person:
    """Somebody who is signed in and has two credits."""
    return add_person(sessions, credits=2)
