"""POST /api/v2/ingest: the rules of the first version, and the fields of the second."""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from detectors.contract import (
    MAX_UNITS,
    RECORD_FIELDS,
    RECORD_V2_FIELDS,
    REQUIRED_FIELDS,
    SECONDS,
    UNITS,
)
from service.models import Audit
from tests.cases import each_case
from tests.detectors.formats.test_record_v2 import NEW
from tests.service.support.scenes import (
    INGEST,
    INGEST_V2,
    Tenant,
    batch,
    error_of,
    record,
)

COUNTS = {"prompt_tokens": 10, "completion_tokens": 2, "cache_write_tokens": 3}
JSON = {"Content-Type": "application/json"}
BAD_BODIES: list[tuple[bytes, Mapping[str, str]]] = [
    (b"{", JSON),
    (b"[]", JSON),
    (b'{"records":[]}', JSON),
    (b'{"records":[1]}', JSON),
    (b'{"records":[%s],"more":1}' % json.dumps(record()).encode(), JSON),
    (json.dumps(batch()).encode(), {"Content-Type": "text/plain"}),
    (json.dumps(batch()).encode(), JSON | {"Content-Encoding": "br"}),
    (json.dumps(batch()).encode(), JSON | {"Content-Encoding": "gzip"}),
    (json.dumps(batch()).encode(), JSON | {"Idempotency-Key": "é"}),
    (b'{"records":[' + b"1," * 5000 + b"1]}", JSON),
    *(
        (json.dumps({"records": [record(), record(**fields)]}).encode(), JSON)
        for fields in (
            {"messages": ["CANARY"], "prompt": "CANARY"},
            {"ts": "yesterday"},
            {"provider": "OpenAI", "model": ""},
            {"prompt_tokens": "5", "tag": "a\nb"},
            {"prefix_hash": "z" * 64},
        )
    ),
]


def _post(client: FlaskClient, url: str, tenant: Tenant, body: bytes, **headers: str) -> Any:
    return client.post(url, data=body, headers={**tenant.writes, **headers})


def _seen(response: TestResponse) -> tuple[int, str, str]:
    error = response.get_json()["error"]
    return response.status_code, error["code"], error["message"]


def test_every_field_is_accepted_and_stored(
    client: FlaskClient, tenant: Tenant, db_session: Session, blobs: Path
) -> None:
    body = gzip.compress(json.dumps({"records": [record(**COUNTS, **NEW), record()]}).encode())
    response = _post(client, INGEST_V2, tenant, body, **JSON, **{"Content-Encoding": "gzip"})
    assert response.status_code == 201
    document = response.get_json()
    assert document == {"audit_id": document["audit_id"], "records": 2, "replayed": False}
    audit = db_session.get_one(Audit, document["audit_id"])
    first, second = (blobs / audit.blob_key).read_bytes().splitlines()
    assert json.loads(first) == record(**COUNTS, **NEW)
    assert json.loads(second) == record()


@each_case(("body", "headers"), BAD_BODIES)
def test_it_refuses_what_the_first_version_refuses_in_the_same_words(
    client: FlaskClient, tenant: Tenant, body: bytes, headers: Mapping[str, str]
) -> None:
    first, second = (_post(client, url, tenant, body, **headers) for url in (INGEST, INGEST_V2))
    assert _seen(first) == _seen(second)
    assert first.status_code >= 400
    assert b"CANARY" not in second.data


def test_a_key_of_one_version_replays_in_the_other(client: FlaskClient, tenant: Tenant) -> None:
    headers = {**tenant.writes, "Idempotency-Key": "both"}
    first = client.post(INGEST, json=batch(), headers=headers)
    second = client.post(INGEST_V2, json=batch(session_id="s"), headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.get_json() == {"audit_id": first.get_json()["audit_id"], "replayed": True}


def test_both_versions_count_towards_the_same_limits(
    make_app: Callable[..., Flask], tenant: Tenant
) -> None:
    for limit in ("ingest_key_limit_per_minute", "ingest_ip_limit_per_minute"):
        client = make_app(**{limit: 2}).test_client()
        statuses = [
            client.post(url, json=batch(), headers=tenant.writes).status_code
            for url in (INGEST, INGEST_V2, INGEST, INGEST_V2)
        ]
        assert statuses == [201, 201, 429, 429]


@each_case("path", ["/api/v2", "/api/v2/audits", "/api/v2/nothing"])
def test_other_paths_of_the_second_version_do_not_exist(client: FlaskClient, path: str) -> None:
    error_of(client.get(path), 404, "not_found")


def test_the_document_has_the_contracts_fields(client: FlaskClient) -> None:
    schemas = client.get("/openapi.json").get_json()["components"]["schemas"]
    first, second = schemas["UsageRecord"], schemas["UsageRecordV2"]
    assert tuple(second["properties"]) == RECORD_V2_FIELDS
    assert tuple(first["properties"]) == RECORD_FIELDS
    assert set(second["required"]) == set(REQUIRED_FIELDS)
    assert second["additionalProperties"] is False
    for name in NEW:
        assert "null" in second["properties"][name]["type"]


def test_the_document_names_every_unit(client: FlaskClient) -> None:
    schemas = client.get("/openapi.json").get_json()["components"]["schemas"]
    units = schemas["UsageRecordV2"]["properties"]["units"]
    assert tuple(units["properties"]) == UNITS
    assert units["additionalProperties"] is False
    assert (units["maxProperties"], set(units["type"])) == (MAX_UNITS, {"object", "null"})
    decimal = [name for name, about in units["properties"].items() if about["type"] == "number"]
    assert set(decimal) == set(SECONDS)
