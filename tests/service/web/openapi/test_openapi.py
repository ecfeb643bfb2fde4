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
from tests.service.support.described import PAGES, documented_path, operations, validate
from tests.service.support.scenes import ADMIN_TOKEN, AUDITS, INGEST

FINDINGS = f"{AUDITS}/{{audit_id}}/findings"


def test_it_is_openapi_3_1_of_every_route_of_the_api(app: Flask, document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    routes = {
        rule.rule.replace("<", "{").replace(">", "}")
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith(API_PREFIX)
    }
    assert routes <= set(document["paths"])
    assert {"/healthz", "/readyz", "/r/{token}"} <= set(document["paths"])


def test_concurrent_first_requests_all_get_the_complete_document(
    document: dict[str, Any], share_app: Callable[..., Flask]
) -> None:
    fresh = share_app()
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: fresh.test_client().get("/openapi.json"), range(8)))
    assert [answer.get_json() for answer in answers] == [document] * 8


@pytest.mark.parametrize(
    ("path", "method", "statuses"),
    [
        (INGEST, "post", "200 201 400 401 402 403 413 415 422 429 500 503"),
        (AUDITS, "get", "200 304 401 403 414 422 429 500 503"),
        (FINDINGS, "get", "200 304 401 403 404 422 429 500 503"),
        ("/auth/magic-link", "post", "200 400 403 413 415 422 429 500 503"),
        ("/auth/logout", "post", "200 400 403 413 500 503"),
        (f"{API_PREFIX}/early-access", "post", "200 400 403 413 415 422 429 500 503"),
    ],
)
def test_each_status_is_documented_with_the_envelope_and_its_headers(
    document: dict[str, Any], path: str, method: str, statuses: str
) -> None:
    responses = document["paths"][path][method]["responses"]
    assert sorted(responses) == statuses.split()
    for status, response in responses.items():
        assert "X-Request-Id" in response["headers"]
        assert ("Retry-After" in response["headers"]) == (status in ("429", "503"))
        if status == "304":
            assert "content" not in response
            continue
        schema = response["content"]["application/json"]["schema"]
        if int(status) >= 400:
            assert schema == {"$ref": "#/components/schemas/Error"}
        else:
            assert schema["$ref"].startswith("#/components/schemas/")
            assert schema["$ref"] != "#/components/schemas/Error"


def test_a_sign_in_link_is_asked_for_by_json_or_a_form(document: dict[str, Any]) -> None:
    content = document["paths"]["/auth/magic-link"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "application/x-www-form-urlencoded"}
    schema = document["components"]["schemas"]["MagicLink"]
    assert set(schema["properties"]) == {"email", "next"}
    assert schema["required"] == ["email"]
    verify = document["paths"]["/auth/verify"]["get"]
    assert sorted(verify["responses"]) == ["200", "414", "422", "500", "503"]
    assert [one["name"] for one in verify["parameters"]] == ["token"]


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


def test_every_operation_has_a_summary(both_documents: dict[str, Any]) -> None:
    assert all(operation["summary"] for operation in operations(both_documents).values())


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
        if rule.rule.startswith("/admin") and rule.rule not in PAGES
    }
    assert set(admin_document["paths"]) == routes
    assert "admin_token" in admin_document["components"]["securitySchemes"]


@pytest.mark.parametrize("token", [None, "", "wrong", ADMIN_TOKEN[:-1]])
def test_the_document_of_the_administration_is_hidden_without_the_token(
    share_app: Callable[..., Flask], token: str | None
) -> None:
    client = share_app(admin_token=ADMIN_TOKEN).test_client()
    headers = {
        "X-Request-Id": "5a" * 16,
        **({} if token is None else {"X-Admin-Token": token}),
    }
    hidden = client.get("/admin/openapi.json", headers=headers)
    unknown = client.get("/nothing/here.json", headers=headers)
    assert (hidden.status_code, hidden.data) == (404, unknown.data)
    assert dict(hidden.headers) == dict(unknown.headers)


def test_every_reference_leads_somewhere(each_document: dict[str, Any]) -> None:
    for reference in _references(each_document):
        found: Any = each_document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]


def test_it_describes_nothing_that_no_route_uses(each_document: dict[str, Any]) -> None:
    used = {reference.rpartition("/")[2] for reference in _references(each_document)}
    assert used == set(each_document["components"]["schemas"])


def test_a_time_without_an_offset_is_within_the_schema(document: dict[str, Any]) -> None:
    ts = document["components"]["schemas"]["UsageRecord"]["properties"]["ts"]
    assert "format" not in ts


def test_readiness_documents_when_to_come_back(document: dict[str, Any]) -> None:
    assert "Retry-After" in document["paths"]["/readyz"]["get"]["responses"]["503"]["headers"]


def _references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [one for child in node.values() for one in _references(child)]
    return [one for child in node for one in _references(child)] if isinstance(node, list) else []


ERRORS = "500 503"
LIMITED = f"429 {ERRORS}"
ADMIN, ACT = f"200 403 404 422 {ERRORS}", f"200 403 404 413 422 {ERRORS}"
READ, READ_ONE = f"200 304 401 403 414 422 {LIMITED}", f"200 304 401 403 404 422 {LIMITED}"
HOOK = f"200 400 403 404 413 422 {ERRORS}"
LINK = f"200 404 422 {LIMITED}"
SIGN_IN = f"200 400 403 413 415 422 {LIMITED}"
OAUTH = f"200 400 401 413 {LIMITED}"
# Every operation, and every status that it has; no more and no less is described.
OPERATIONS = {
    "post /api/v1/ingest": f"200 201 400 401 402 403 413 415 422 {LIMITED}",
    "post /api/v2/ingest": f"200 201 400 401 402 403 413 415 422 {LIMITED}",
    "post /api/v1/plan-limits": SIGN_IN.replace("403", "401 403"),
    "post /otlp/v1/traces": f"200 400 401 402 403 413 415 {LIMITED}",
    "post /otlp/v1/logs": f"200 400 401 402 403 413 415 {LIMITED}",
    "post /otlp/v1/metrics": f"200 400 401 402 403 413 {LIMITED}",
    "get /api/v1/findings": READ,
    "post /api/v1/account-audits": f"202 401 403 414 422 {LIMITED}",
    "post /api/v1/span-imports": f"202 401 403 {LIMITED}",
    "post /api/v1/audits": f"200 201 400 401 402 403 413 415 422 {LIMITED}",
    "get /api/v1/audits": READ,
    "get /api/v1/audits/{audit_id}": READ_ONE,
    "get /api/v1/audits/{audit_id}/findings": READ_ONE,
    "get /api/v1/audits/{audit_id}/report": READ_ONE,
    "get /api/v1/audits/{audit_id}/status": f"200 304 401 404 422 {LIMITED}",
    "get /api/v1/spend": READ,
    "get /api/v1/compare": f"404 {READ}",
    "get /api/v1/plan-usage": READ,
    "get /api/v1/reconciliation": READ,
    "get /api/v1/future-calls": f"200 304 401 403 422 {LIMITED}",
    "delete /api/v1/future-calls": f"202 401 403 414 422 {LIMITED}",
    "get /api/v1/marks": READ,
    "post /api/v1/marks": f"201 400 401 403 413 415 422 {LIMITED}",
    "delete /api/v1/marks/{mark_id}": f"200 401 403 404 422 {LIMITED}",
    "get /api/v1/report-links": READ,
    "delete /api/v1/report-links/{audit_id}": f"200 401 403 404 422 {LIMITED}",
    "post /api/v1/webhooks/stripe": HOOK,
    "post /api/v1/webhooks/paddle": HOOK,
    "post /api/v1/early-access": SIGN_IN,
    "get /healthz": "200 500",
    "get /readyz": f"200 {ERRORS}",
    "get /r/{token}": f"414 {LINK}",
    "get /r/{token}/pdf": LINK,
    "get /r/{token}/json": LINK,
    "get /r/{token}/findings.csv": LINK,
    "post /auth/magic-link": SIGN_IN,
    "get /auth/verify": f"200 414 422 {ERRORS}",
    "post /auth/verify": f"200 400 403 413 415 422 {ERRORS}",
    "post /auth/logout": f"200 400 403 413 {ERRORS}",
    "post /oauth/token": OAUTH,
    "post /oauth/revoke": OAUTH,
    "get /.well-known/oauth-authorization-server": "200 500",
    "get /oauth/authorize": f"200 303 400 414 {LIMITED}",
    "post /oauth/authorize": f"303 400 403 413 414 422 {LIMITED}",
    "get /admin": f"414 {ADMIN}",
    "post /admin/audits/{audit_id}/purge": ACT,
    "get /admin/audits/{audit_id}/report": ADMIN,
    "post /admin/audits/{audit_id}/rerun": ACT,
    "post /admin/accounts/{account_id}/sign-out": ACT,
    "post /admin/payments/mark-paid": ACT,
    "get /admin/early-access.csv": ADMIN,
}


def test_the_document_is_valid_openapi(each_document: dict[str, Any]) -> None:
    # At the top, each test process would spend seconds on it at collection.
    import openapi_spec_validator

    openapi_spec_validator.validate(each_document)


def test_every_route_is_described_or_exempt_by_name(
    app: Flask, both_documents: dict[str, Any]
) -> None:
    routes = {
        f"{method.lower()} {documented_path(rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule not in PAGES
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


def test_no_exempt_page_is_gone(app: Flask) -> None:
    assert {rule.rule for rule in app.url_map.iter_rules()} >= PAGES


def test_every_operation_has_exactly_its_statuses(both_documents: dict[str, Any]) -> None:
    described = {name: set(one["responses"]) for name, one in operations(both_documents).items()}
    assert described == {name: set(statuses.split()) for name, statuses in OPERATIONS.items()}


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


def test_an_upload_is_one_file_and_perhaps_its_label_and_columns(document: dict[str, Any]) -> None:
    content = document["paths"][AUDITS]["post"]["requestBody"]["content"]
    assert set(content) == {"multipart/form-data"}
    schema = content["multipart/form-data"]["schema"]
    assert schema["required"] == ["file"]
    assert set(schema["properties"]) == {"file", "label", "map", "provider"}
