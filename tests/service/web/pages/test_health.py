"""/healthz and /readyz."""

import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.cases import each_case
from tests.embedded.processes import wait_until
from tests.service.support.scenes import ADMIN_TOKEN

NO_DATABASE = "postgresql+psycopg2://nobody@/none?host=/nowhere"
NO_REDIS = "unix:///nowhere/valkey.sock"


def test_a_healthy_process_names_its_components(client: FlaskClient) -> None:
    for path in ("/healthz", "/readyz"):
        response = client.get(path)
        assert response.status_code == 200
        assert response.get_json() == {
            "status": "ok",
            "components": {"database": "ok", "redis": "ok", "storage": "ok"},
        }


OUTSIDE = [
    ("203.0.113.7", {}),
    ("10.0.0.7", {}),
    ("::ffff:10.0.0.7", {}),
    ("", {}),
    ("127.0.0.1", {"X-Forwarded-For": "203.0.113.7"}),
    ("127.0.0.1", {"X-Forwarded-For": "127.0.0.1"}),
    ("127.0.0.1", {"Forwarded": "for=127.0.0.1"}),
    ("127.0.0.1", {"X-Real-IP": "127.0.0.1"}),
    ("127.0.0.1", {"Via": "1.1 proxy"}),
    ("203.0.113.7", {"X-Admin-Token": "wrong"}),
    ("203.0.113.7", {"X-Admin-Token": ""}),
]


@each_case("path", ["/healthz", "/readyz"])
@each_case(("address", "headers"), OUTSIDE)
def test_requests_from_outside_get_the_status_and_nothing_else(
    share_app: Callable[..., Flask], path: str, address: str, headers: dict[str, str]
) -> None:
    client = share_app(admin_token=ADMIN_TOKEN).test_client()
    found = client.get(path, headers=headers, environ_base={"REMOTE_ADDR": address})
    assert found.status_code == 200
    assert found.get_json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_what_is_down_is_hidden_from_outside(share_app: Callable[..., Flask], path: str) -> None:
    client = share_app(redis_url=NO_REDIS, database_url=NO_DATABASE).test_client()
    # Where no admin token is set, an empty one reveals nothing.
    for headers in ({}, {"X-Admin-Token": ""}):
        address = {"REMOTE_ADDR": "203.0.113.7"}
        found = client.get(path, headers=headers, environ_base=address)
        assert found.status_code == (200 if path == "/healthz" else 503)
        assert found.get_json() == {"status": "degraded"}


@each_case(
    ("address", "headers"),
    [
        ("127.0.0.1", {}),
        ("127.8.8.8", {}),
        ("::1", {}),
        ("::ffff:127.0.0.1", {}),
        ("203.0.113.7", {"X-Admin-Token": ADMIN_TOKEN}),
        ("127.0.0.1", {"X-Admin-Token": ADMIN_TOKEN, "X-Forwarded-For": "203.0.113.7"}),
    ],
)
def test_requests_from_inside_get_the_components(
    share_app: Callable[..., Flask], address: str, headers: dict[str, str]
) -> None:
    client = share_app(admin_token=ADMIN_TOKEN).test_client()
    found = client.get("/healthz", headers=headers, environ_base={"REMOTE_ADDR": address})
    assert set(found.get_json()["components"]) == {"database", "redis", "storage"}


@pytest.mark.parametrize(
    ("settings", "down", "readiness"),
    [
        ({"database_url": NO_DATABASE}, "database", 503),
        ({"redis_url": NO_REDIS}, "redis", 200),
        ({"storage_url": "file:///proc/nowhere"}, "storage", 503),
    ],
)
def test_a_component_that_is_down_decides_whether_traffic_should_come(
    share_app: Callable[..., Flask], settings: dict[str, str], down: str, readiness: int
) -> None:
    client = share_app(**settings).test_client()
    alive, ready = client.get("/healthz"), client.get("/readyz")
    assert alive.status_code == 200
    assert alive.get_json()["status"] == "degraded"
    assert alive.get_json()["components"][down] == "down"
    assert ready.status_code == readiness
    assert ready.get_json()["components"] == alive.get_json()["components"]
    assert ("Retry-After" in ready.headers) == (readiness == 503)


def test_a_full_disk_is_not_ready(share_app: Callable[..., Flask]) -> None:
    """A limit on the size of files stands for a quota."""
    client = share_app().test_client()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_024, hard))
    try:
        full = client.get("/readyz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (full.status_code, full.get_json()["components"]["storage"]) == (503, "down")
    assert wait_until(lambda: client.get("/readyz").status_code == 200)


def test_a_disk_without_room_is_not_ready(
    share_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=512 * 1_024))
    assert share_app().test_client().get("/readyz").status_code == 503


def test_the_storage_is_asked_every_few_seconds_however_many_ask(
    app: Flask, client: FlaskClient
) -> None:
    health, asked = app.extensions["health"], list[float]()
    probe = health.probes["storage"]

    def ask() -> bool:
        asked.append(time.monotonic())
        return bool(probe())

    health.probes = {**health.probes, "storage": ask}
    for _ in range(20):
        health._checked_at = -1.0
        assert client.get("/readyz").status_code == 200
    assert len(asked) <= 1 + (time.monotonic() - asked[0]) // 3


def test_a_component_that_hangs_holds_nobody(
    app: Flask, client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each probe goes on in its thread, once; others are asked meanwhile."""
    monkeypatch.setattr("service.web.pages.public.health._PROBE_SECONDS", 0.7)
    health, answers, asked = app.extensions["health"], Event(), list[str]()

    def hang() -> bool:
        asked.append("storage")
        return answers.wait(30)

    health.probes = {**health.probes, "storage": hang}
    for _ in range(3):
        health._checked_at = health._storage_until = -1.0
        states = client.get("/healthz").get_json()["components"]
        assert states == {"database": "ok", "redis": "ok", "storage": "down"}
    assert asked == ["storage"]
    answers.set()

    def is_ready() -> bool:
        health._checked_at = -1.0
        return client.get("/readyz").status_code == 200

    assert wait_until(is_ready)


def test_the_components_are_asked_once_a_second_however_many_ask(app: Flask) -> None:
    health = app.extensions["health"]
    asked: list[str] = []

    def ask() -> bool:
        asked.append("database")
        return True

    health.probes = {"database": ask}
    for _ in range(50):
        health.states()
    assert len(asked) == 1


def test_health_needs_no_credential_and_reveals_no_address(
    share_app: Callable[..., Flask], tmp_path: Path
) -> None:
    text = share_app(database_url=NO_DATABASE).test_client().get("/healthz").get_data(as_text=True)
    assert "nowhere" not in text
    assert str(tmp_path) not in text
