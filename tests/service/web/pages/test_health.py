"""/healthz and /readyz."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient

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


@pytest.mark.parametrize(
    ("settings", "down", "readiness"),
    [
        ({"database_url": NO_DATABASE}, "database", 503),
        ({"redis_url": NO_REDIS}, "redis", 200),
        ({"storage_url": "file:///proc/nowhere"}, "storage", 503),
    ],
)
def test_a_component_that_is_down_decides_whether_traffic_should_come(
    make_app: Callable[..., Flask], settings: dict[str, str], down: str, readiness: int
) -> None:
    client = make_app(**settings).test_client()
    alive, ready = client.get("/healthz"), client.get("/readyz")
    assert alive.status_code == 200
    assert alive.get_json()["status"] == "degraded"
    assert alive.get_json()["components"][down] == "down"
    assert ready.status_code == readiness
    assert ready.get_json()["components"] == alive.get_json()["components"]
    assert ("Retry-After" in ready.headers) == (readiness == 503)


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
    make_app: Callable[..., Flask], tmp_path: Path
) -> None:
    text = make_app(database_url=NO_DATABASE).test_client().get("/healthz").get_data(as_text=True)
    assert "nowhere" not in text
    assert str(tmp_path) not in text
