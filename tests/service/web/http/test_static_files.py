"""Static files: addresses that change with their content, caching, and compression."""

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.cases import each_case

FOR_GOOD = "public, max-age=31536000, immutable"


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client(use_cookies=False)


def _files(client: FlaskClient) -> list[str]:
    page = client.get("/upload").get_data(as_text=True)
    return re.findall('(?:href|src)="(/static/[^"]+)"', page)


def test_browsers_keep_every_file_that_a_page_names(client: FlaskClient) -> None:
    files = _files(client)
    assert len(files) >= 4
    for path in files:
        with client.get(path) as answer:
            assert (answer.status_code, answer.headers["Cache-Control"]) == (200, FOR_GOOD), path


@each_case("query", ["", "?v=", "?v=000000000000"])
def test_a_file_of_another_version_is_asked_for_again(client: FlaskClient, query: str) -> None:
    with client.get(f"/static/tallystick.css{query}") as answer:
        assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-cache")
    with client.get(f"/static/none.css{query}") as answer:
        assert answer.status_code == 404
        assert "immutable" not in answer.headers.get("Cache-Control", "")


@each_case("encoding", ["gzip", "zstd", "br"])
def test_pages_and_files_are_compressed(client: FlaskClient, encoding: str) -> None:
    for path in ("/sign-in", "/sample", *_files(client)[2:]):
        with client.get(path, headers={"Accept-Encoding": encoding}) as answer:
            small = len(answer.data)
            assert answer.headers["Content-Encoding"] == encoding, path
            assert "Accept-Encoding" in answer.headers["Vary"]
        with client.get(path, headers={"Accept-Encoding": "identity"}) as answer:
            assert "Content-Encoding" not in answer.headers
            assert small < len(answer.data) * 0.6, path


def test_the_api_answers_with_plain_bytes(client: FlaskClient) -> None:
    """Its ETags are of them."""
    answer = client.get("/openapi.json", headers={"Accept-Encoding": "gzip, br, zstd"})
    assert "Content-Encoding" not in answer.headers


def test_the_first_load_is_light(client: FlaskClient) -> None:
    """Everything that the landing page needs, compressed: at most 100 kB in 6 requests."""
    headers = {"Accept-Encoding": "gzip"}
    page = client.get("/", headers={"Accept-Encoding": "identity"}).get_data(as_text=True)
    files = set(re.findall('(?:href|src)="(/static/[^"]+)"', page)) - {"/static/tallystick.svg"}
    size = len(client.get("/", headers=headers).data)
    for path in files:
        with client.get(path, headers=headers) as answer:
            size += len(answer.data)
    assert len(files) + 1 <= 6
    assert size <= 100_000
