"""Ingest reads bodies: type, encoding, size, and JSON meant to break it."""

import gzip
import json
import zlib
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.errors import PayloadTooLargeError
from service.web.http.bodies import bounded_body, plain_body
from tests.cases import each_case
from tests.service.support.hostile import hostile_bodies
from tests.service.support.scenes import INGEST, Tenant, batch, error_of, record

PLAIN = json.dumps(batch(20)).encode()


def _post(
    client: FlaskClient, tenant: Tenant, body: bytes, encoding: str | None = None
) -> TestResponse:
    headers = dict(tenant.writes)
    if encoding is not None:
        headers["Content-Encoding"] = encoding
    return client.post(INGEST, data=body, headers=headers, content_type="application/json")


@each_case("content_type", ["text/plain", "text/csv", "multipart/form-data", "application/xml", ""])
def test_another_content_type_is_not_supported(
    client: FlaskClient, tenant: Tenant, content_type: str
) -> None:
    response = client.post(INGEST, data=PLAIN, headers=tenant.writes, content_type=content_type)
    error_of(response, 415, "unsupported_media_type")


def test_a_charset_beside_the_content_type_is_fine(client: FlaskClient, tenant: Tenant) -> None:
    response = client.post(
        INGEST, data=PLAIN, headers=tenant.writes, content_type="application/json; charset=utf-8"
    )
    assert response.status_code == 201


@each_case("encoding", ["gzip", "GZIP", "x-gzip"])
def test_a_gzipped_body_is_unpacked(client: FlaskClient, tenant: Tenant, encoding: str) -> None:
    response = _post(client, tenant, gzip.compress(PLAIN), encoding)
    assert response.status_code == 201
    assert response.get_json()["records"] == 20


@each_case("encoding", ["br", "deflate", "zstd", "gzip, gzip", "compress", "*", ""])
def test_another_encoding_is_not_supported(
    client: FlaskClient, tenant: Tenant, encoding: str
) -> None:
    error_of(_post(client, tenant, PLAIN, encoding), 415, "unsupported_media_type")


@each_case(
    "body",
    [
        b"",
        PLAIN,
        gzip.compress(PLAIN)[:-1],
        gzip.compress(PLAIN)[:20],
        gzip.compress(PLAIN) + b"tail",
        gzip.compress(PLAIN) + gzip.compress(PLAIN),
        gzip.compress(PLAIN)[:-8] + bytes(8),
        zlib.compress(PLAIN),
    ],
)
def test_broken_gzip_is_a_bad_request(client: FlaskClient, tenant: Tenant, body: bytes) -> None:
    error_of(_post(client, tenant, body, "gzip"), 400, "bad_request")


@each_case("encoding", ["identity", "gzip"])
def test_the_size_limit_is_exact_packed_and_unpacked(app: Flask, encoding: str) -> None:
    read = bounded_body(len(PLAIN))(lambda: bytes(plain_body()))

    def receive(body: bytes) -> bytes:
        data = gzip.compress(body) if encoding == "gzip" else body
        headers = {"Content-Encoding": encoding}
        with app.test_request_context(method="POST", data=data, headers=headers):
            return read()

    assert receive(PLAIN) == PLAIN
    for larger in (PLAIN + b" ", PLAIN + b" " * 50_000_000):
        with pytest.raises(PayloadTooLargeError):
            receive(larger)


def test_a_hostile_body_is_rejected_and_breaks_nothing(
    client: FlaskClient, tenant: Tenant, blobs: Path
) -> None:
    for body in hostile_bodies():
        response = _post(client, tenant, body)
        assert response.status_code in (400, 422), (body[:200], response.get_data(as_text=True))
        error_of(response, response.status_code, response.get_json()["error"]["code"])
        assert list(blobs.rglob("*.jsonl")) == [], body[:200]


def test_of_duplicate_records_arrays_only_the_last_is_kept(
    client: FlaskClient, tenant: Tenant, blobs: Path
) -> None:
    first, last = json.dumps([record(tag="CANARY")]), json.dumps([record(), record()])
    body = f'{{"records": {first}, "records": {last}}}'
    response = _post(client, tenant, body.encode())
    assert response.get_json()["records"] == 2
    assert not any(b"CANARY" in path.read_bytes() for path in blobs.rglob("*.jsonl"))
