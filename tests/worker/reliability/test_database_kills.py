"""Every route answers 503, and none 500, while PostgreSQL or one of its processes is killed."""

import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

import psutil
import pytest
import requests
from sqlalchemy.exc import DBAPIError

from service.core.db import make_session_factory
from tests.service.payments.providers import PROVIDERS, SETTINGS
from tests.service.support.access_table import SESSION, TABLE
from tests.service.support.access_world import World, make_world, request_for
from tests.service.support.scenes import ADMIN_TOKEN, SECRET_KEY
from tests.worker.conftest import started_system
from tests.worker.support.promises import Note, in_full_only, scaled
from tests.worker.support.system import System

CLIENTS: Final = 8
ROUNDS: Final = 6
KILLS: Final = ("restart", "postmaster", "backend", "checkpointer")
READY_SECONDS: Final = 60.0
# What would end the credentials that the others use.
_ENDS_ACCESS: Final = {
    ("POST", "/auth/logout"),
    ("POST", "/settings/delete"),
    ("POST", "/settings/sessions/<session_id>/revoke"),
    ("POST", "/settings/sessions/revoke-others"),
    ("POST", "/admin/accounts/<account_id>/sign-out"),
}
# A health check says 503 without an hour: its caller asks again anyhow.
_CHECKS: Final = {"/healthz", "/readyz"}
Route = tuple[str, str]


@pytest.fixture(scope="module")
def web() -> Iterator[System]:
    """The web alone, with payments and an administrator."""
    settings = {name.upper(): value for name, value in SETTINGS.items()}
    secrets = {"SECRET_KEY": SECRET_KEY, "ADMIN_TOKEN": ADMIN_TOKEN}
    with started_system(workers=0, sweepers=0, **settings, **secrets) as system:
        yield system


@dataclass
class Crowd:
    """Clients that ask for every route, each with a credential that it accepts."""

    system: System
    world: World
    stop: Event = field(default_factory=Event)
    statuses: Counter[int] = field(default_factory=Counter)
    refused: set[Route] = field(default_factory=set)
    wrong: list[tuple[Route, int]] = field(default_factory=list)

    def ask(self, seed: int) -> None:
        """Ask for all routes at least once, in an order of the client's own, until stopped."""
        while True:
            for route in random.Random(seed).sample(sorted(_routes()), len(_routes())):
                self._ask(route)
                if self.stop.is_set():
                    return
            seed += CLIENTS

    def _ask(self, route: Route) -> None:
        try:
            response = self._send(route)
        except requests.RequestException:
            self.wrong.append((route, 0))
            return
        status = response.status_code
        self.statuses[status] += 1
        if status == 503:
            self.refused.add(route)
        if status >= 500 and not (status == 503 and _says_when(route, response)):
            self.wrong.append((route, status))

    def _send(self, route: Route) -> requests.Response:
        for provider in PROVIDERS:
            if route[1] == provider.path:
                body, headers = provider.signed(provider.paid(self.world.ids["account_id"]))
                return self._request(route[0], provider.path, data=body, headers=headers)
        taken = TABLE[route].taken
        name = SESSION if SESSION in taken else next(iter(taken), "none")
        caller = self.world.callers[name]
        path, options = request_for(route, caller, self.world.ids)
        if "file" in options.get("data", {}):  # in the form of the test client
            options["files"] = {"file": ("x.jsonl", b"{}")}
            options["data"] = {"csrf_token": caller.csrf_token}
        return self._request(route[0], path, **options)

    def _request(self, method: str, path: str, **options: Any) -> requests.Response:
        options |= {"timeout": 60, "allow_redirects": False}
        return requests.request(method, f"{self.system.base_url}{path}", **options)


def _routes() -> set[Route]:
    return set(TABLE) - _ENDS_ACCESS


def _says_when(route: Route, response: requests.Response) -> bool:
    return route[1] in _CHECKS or "Retry-After" in response.headers


@in_full_only
def test_no_route_answers_500_while_postgres_is_killed(
    web: System, share: float, note: Note
) -> None:
    """By default, `test_lost_sessions.py` ends the sessions of some routes."""
    crowd = Crowd(web, make_world(make_session_factory(web.engine)))
    for route in _routes():  # each is reached, and answers, before anything is killed
        crowd._ask(route)
    assert not crowd.wrong
    kills = list(KILLS) * scaled(ROUNDS, share)
    with ThreadPoolExecutor(CLIENTS) as pool:
        asking = [pool.submit(crowd.ask, seed) for seed in range(CLIENTS)]
        try:
            for kind in kills:
                time.sleep(0.3)
                _kill(web, kind)
        finally:
            crowd.stop.set()
        for one in asking:
            one.result()
    assert crowd.refused, crowd.statuses
    asked = crowd.statuses.total()
    note(f"1 {len(kills)} kills of PostgreSQL, {len(_routes())} routes", asked, len(crowd.wrong))


def _kill(web: System, kind: str) -> None:
    if kind == "restart":
        web.servers.crash_postgres()
    else:
        with suppress(psutil.NoSuchProcess):
            _find(psutil.Process(_postmaster_of(web)), kind).kill()
    _wait_until_ready(web)


def _postmaster_of(web: System) -> int:
    """Return its process ID once there is one: psutil takes None for this process."""
    ends_at = time.monotonic() + READY_SECONDS
    while (pid := web.servers.supervisor.programs()["postgres"].pid) is None:
        assert time.monotonic() < ends_at, "PostgreSQL stayed down"
        time.sleep(0.02)
    return pid


def _find(postmaster: psutil.Process, kind: str) -> psutil.Process:
    """Return the process of this kind; a backend is one that serves a connection."""
    if kind == "postmaster":
        return postmaster
    named = [child for child in postmaster.children() if kind in " ".join(child.cmdline())]
    serving = [child for child in postmaster.children() if "idle" in " ".join(child.cmdline())]
    return (named or serving or [postmaster])[0]


def _wait_until_ready(web: System) -> None:
    """Wait for the database itself: a health check may be as old as a second."""
    ends_at = time.monotonic() + READY_SECONDS
    while True:
        try:
            with web.engine.connect():
                return
        except DBAPIError:
            assert time.monotonic() < ends_at, "PostgreSQL stayed down"
            time.sleep(0.05)
