"""Connections to stubs that run on this machine."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from sqlalchemy import Engine

from service.config import Config
from service.connections import client
from service.connections.stub import running
from service.core.db import make_engine
from tests.service.connections.connecting import Connected
from tests.service.connections.worlds import Provider
from tests.service.support.scenes import Sessions


@pytest.fixture
def own_engine(own_database: Config) -> Iterator[Engine]:
    engine = make_engine(own_database)
    yield engine
    engine.dispose()


@pytest.fixture
def connect(
    own_database: Config,
    own_engine: Engine,
    own_sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., Connected]]:
    """Start a provider's stub, and connect an account to it."""
    monkeypatch.setattr(client, "_FIRST_PAUSE_SECONDS", 0.001)
    with ExitStack() as stack:
        session = stack.enter_context(own_sessions())

        def connect(provider: Provider, **fields: Any) -> Connected:
            stack.enter_context(running(provider.stub))
            return Connected(provider, own_database, own_engine, session, **fields)

        yield connect
