"""A route whose session PostgreSQL ends answers 503, and never 500.

`test_database_kills.py` kills PostgreSQL under all routes at once. Here the session ends before the
first, second or third statement of a request, whatever the clock says.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest
from flask import Flask
from sqlalchemy import Connection, Engine, create_engine, event, text

from service.app import create_app
from service.config import Config
from tests.service.payments.providers import SETTINGS as PROVIDERS
from tests.service.support.access_table import SESSION, TABLE
from tests.service.support.access_world import ask, make_world
from tests.service.support.scenes import ADMIN_TOKEN, Sessions
from tests.worker.support.promises import Note

STATEMENTS: Final = (1, 2, 3)
# They say 503 without an hour: their caller asks again anyhow.
CHECKS: Final = {"/healthz", "/readyz"}


class Ends:
    """Ends a session, as an administrator or a crash would, before the n-th statement from now."""

    def __init__(self, engine: Engine) -> None:
        self.before = 0
        self.count = 0
        self.apart = create_engine(engine.url)
        event.listen(engine, "before_cursor_execute", self._count_down)

    def _count_down(self, connection: Connection, *_: object) -> None:
        self.before -= 1
        if self.before == 0:
            driver: Any = connection.connection.driver_connection
            ended = text("SELECT pg_terminate_backend(:pid)")
            with self.apart.connect() as other:
                self.count += bool(other.scalar(ended, {"pid": driver.info.backend_pid}))


@pytest.fixture
def app(own_database: Config) -> Flask:
    limits: dict[str, Any] = {
        f"{name}_limit_per_minute": 100_000 for name in ("magic_link", "upload")
    }
    settings: dict[str, Any] = {"admin_token": ADMIN_TOKEN, **PROVIDERS, **limits}
    return create_app(replace(own_database, **settings))


@pytest.fixture
def engine(app: Flask) -> Iterator[Engine]:
    engine: Engine = app.extensions["session_factory"].kw["bind"]
    yield engine
    engine.dispose()


@pytest.mark.parametrize(
    "every",
    [pytest.param(16, id="every_16th_route"), pytest.param(1, marks=pytest.mark.stress, id="all")],
)
def test_a_route_whose_session_ends_is_unavailable_and_never_broken(
    app: Flask, engine: Engine, own_sessions: Sessions, every: int, note: Note
) -> None:
    world, wrong = make_world(own_sessions), []
    ends = Ends(engine)
    routes = sorted(TABLE)[::every]
    for route, ends.before in product(routes, STATEMENTS):
        taken = TABLE[route].taken
        name = SESSION if SESSION in taken else next(iter(taken), "none")
        response = ask(app.test_client(use_cookies=False), route, world.callers[name], world.ids)
        says_when = route[1] in CHECKS or "Retry-After" in response.headers
        if response.status_code >= 500 and not (response.status_code == 503 and says_when):
            wrong.append((route, response.status_code))
    ends.apart.dispose()
    assert ends.count > len(routes)
    note(f"1 sessions that end under {len(routes)} routes", ends.count, len(wrong))
