"""/openapi.json and /admin/openapi.json: the documents that the running API generates."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from detectors.contract import MAX_COUNT, RECORD_FIELDS, REQUIRED_FIELDS
from service.web.auth.scopes import SCOPES
from service.web.http.paths import API_PREFIX
from tests.service.support.described import documented_path, is_described, operations, validate
from tests.service.support.scenes import ADMIN_TOKEN, AUDITS, INGEST

FINDINGS = f"{AUDITS}/{{audit_id}}/findings"


def test_concurrent_first_requests_all_get_the_complete_document(
    document: dict[str, Any], share_app: Callable[..., Flask]
) -> None:
    fresh = share_app()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fresh.test_client().get("/openapi.json"), range(8)))
    assert [answer.get_json() for answer in answers] == [document] * 8


@pytest.mark.parametrize("name", ["post /api/v1/ingest", "get /api/v1/audits"])
def test_each_status_is_documented_with_the_envelope_and_its_headers(
    document: dict[str, Any], name: str
) -> None:
    for status, response in operations(document)[name]["responses"].items():
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))
        if status == "304":
            assert "content" not in response
            continue
        schema = response["content"]["application/json"]["schema"]["$ref"]
        assert (schema == "#/components/schemas/Error") == (int(status) >= 400)


def test_each_route_names_its_credential(document: dict[str, Any]) -> None:
    paths, schemes = document["paths"], document["components"]["securitySchemes"]
    assert paths[INGEST]["post"]["security"] == [{"ingest_key": []}]
    one = ["read:audits"]
    assert paths[AUDITS]["get"]["security"] == [{"read_token": one}, {"access_token": one}]
    assert paths["/healthz"]["get"]["security"] == []
    for name in ("ingest_key", "read_token"):
        assert (schemes[name]["type"], schemes[name]["scheme"]) == ("http", "bearer")
    assert set(schemes["access_token"]["flows"]["authorizationCode"]["scopes"]) == set(SCOPES)


@pytest.mark.parametrize(
    ("ending", "scopes"),
    [
        ("", ["read:audits"]),
        ("/{audit_id}", ["read:audits"]),
        ("/{audit_id}/findings", ["read:findings"]),
        ("/{audit_id}/report", ["read:audits", "read:findings"]),
    ],
)
def test_each_route_that_reads_names_its_scopes(
    document: dict[str, Any], ending: str, scopes: list[str]
) -> None:
    taken = document["paths"][f"{AUDITS}{ending}"]["get"]["security"]
    assert [found for one in taken for found in one.values()] == [scopes, scopes]


def test_the_record_has_the_contracts_fields_and_bounds(document: dict[str, Any]) -> None:
    schema = document["components"]["schemas"]["UsageRecord"]
    assert set(schema["properties"]) == set(RECORD_FIELDS)
    assert set(schema["required"]) == set(REQUIRED_FIELDS)
    assert schema["additionalProperties"] is False
    for name, field in schema["properties"].items():
        if name.endswith("_tokens"):
            assert (field["minimum"], field["maximum"]) == (0, MAX_COUNT)
            assert "integer" in field["type"]
        if name in ("model", "endpoint", "request_id", "tag"):
            assert field["maxLength"] == 200
        assert ("null" in field["type"]) == (name not in REQUIRED_FIELDS)


def test_the_batch_is_bounded(document: dict[str, Any]) -> None:
    schema = document["components"]["schemas"]["Batch"]
    records = schema["properties"]["records"]
    assert (records["minItems"], records["maxItems"]) == (1, 5000)
    assert schema["required"] == ["records"]
    assert schema["additionalProperties"] is False


def test_the_parameters_are_documented_with_their_bounds(document: dict[str, Any]) -> None:
    headers = {one["name"]: one for one in document["paths"][INGEST]["post"]["parameters"]}
    assert headers["Idempotency-Key"]["in"] == "header"
    assert headers["Idempotency-Key"]["required"] is False
    assert headers["Idempotency-Key"]["schema"]["maxLength"] == 255
    queries = {one["name"]: one for one in document["paths"][AUDITS]["get"]["parameters"]}
    assert set(queries) == {"limit", "status", "since", "cursor", "source", "If-None-Match"}
    limit = queries["limit"]
    bounds = limit["schema"]["minimum"], limit["schema"]["maximum"], limit["schema"]["default"]
    assert bounds == (1, 200, 50)
    spend = {one["name"]: one for one in document["paths"]["/api/v1/spend"]["get"]["parameters"]}
    assert spend["group_by"]["schema"]["default"] == "day"
    [audit_id] = document["paths"][FINDINGS]["parameters"]
    assert (audit_id["name"], audit_id["required"]) == ("audit_id", True)


@pytest.fixture(params=["document", "admin_document"])
def each_document(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = request.getfixturevalue(request.param)
    return found


def test_the_public_document_mentions_nothing_of_the_administration(
    document: dict[str, Any], admin_document: dict[str, Any], client: FlaskClient
) -> None:
    words = client.get("/openapi.json").get_data(as_text=True).lower()
    assert "admin" not in words
    assert not [path for path in document["paths"] if path in admin_document["paths"]]
    only_there = set(admin_document["components"]["schemas"]) - {"Error", "ErrorDetail"}
    assert only_there & set(document["components"]["schemas"]) <= {"PaymentLink"}
    assert "/admin" not in client.get("/docs").get_data(as_text=True)


def test_the_document_of_the_administration_has_all_of_it(
    app: Flask, admin_document: dict[str, Any]
) -> None:
    routes = {
        documented_path(rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/admin") and is_described(rule.rule)
    }
    assert set(admin_document["paths"]) == routes
    assert "admin_token" in admin_document["components"]["securitySchemes"]


@pytest.mark.parametrize("token", [None, "", "wrong", ADMIN_TOKEN[:-1]])
def test_the_document_of_the_administration_is_hidden_without_the_token(
    share_app: Callable[..., Flask], token: str | None
) -> None:
    client = share_app(admin_token=ADMIN_TOKEN).test_client()
    headers = {"X-Request-Id": "5a" * 16, **({} if token is None else {"X-Admin-Token": token})}
    hidden = client.get("/admin/openapi.json", headers=headers)
    unknown = client.get("/nothing/here.json", headers=headers)
    assert (hidden.status_code, hidden.data) == (404, unknown.data)
    assert dict(hidden.headers) == dict(unknown.headers)


def test_references_lead_somewhere_and_nothing_is_unused(each_document: dict[str, Any]) -> None:
    for reference in _references(each_document):
        found: Any = each_document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    # It describes nothing that no route uses.
    used = {reference.rpartition("/")[2] for reference in _references(each_document)}
    assert used == set(each_document["components"]["schemas"])


def test_times_and_readiness_are_documented(document: dict[str, Any]) -> None:
    ts = document["components"]["schemas"]["UsageRecord"]["properties"]["ts"]
    assert "format" not in ts
    # Readiness documents when to come back.
    assert "Retry-After" in document["paths"]["/readyz"]["get"]["responses"]["503"]["headers"]


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [one for child in node.values() for one in _references(child)]
    return [one for child in node for one in _references(child)] if isinstance(node, list) else []


def test_both_documents_are_valid_openapi(both_documents: dict[str, Any]) -> None:
    # At the top, each test process would spend seconds on it at collection.
    import openapi_spec_validator

    openapi_spec_validator.validate(both_documents)


def test_every_route_of_the_api_is_described(app: Flask, both_documents: dict[str, Any]) -> None:
    routes = {
        f"{method.lower()} {documented_path(rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if is_described(rule.rule)
    }
    assert set(operations(both_documents)) == routes


def test_every_reading_endpoint_of_the_api_has_a_limit_and_an_etag(
    document: dict[str, Any],
) -> None:
    reads = {
        path: operations["get"]["responses"]
        for path, operations in document["paths"].items()
        if path.startswith(API_PREFIX) and "get" in operations
    }
    assert len(reads) >= 5
    for path, responses in reads.items():
        assert {"304", "429"} <= set(responses), path
        assert {"ETag", "RateLimit-Limit"} <= set(responses["200"]["headers"]), path


def test_every_json_answer_has_an_example_that_is_one(both_documents: dict[str, Any]) -> None:
    for name, operation in operations(both_documents).items():
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if content is not None:
                assert "example" in content, f"{name} {status}"
                validate(content["example"], content["schema"])


def test_every_answer_but_a_download_names_its_request(both_documents: dict[str, Any]) -> None:
    for operation in operations(both_documents).values():
        for answer in operation["responses"].values():
            assert "X-Request-Id" in answer["headers"]
