"""Check every response in every test against the OpenAPI documents.

A response is wrong if its status, media type, fields or headers aren't described.
"""

import json
from functools import cache
from typing import Any

import werkzeug
from flask import Flask, Response, request
from jsonschema_rs import Draft202012Validator

from tests.service.support.scenes import ADMIN_TOKEN

# What the documents describe; everything else is for people and for machines other than the
# API's callers.
_API = ("/api/", "/otlp/", "/oauth/", "/auth/", "/r/", "/admin", "/healthz", "/readyz")
_METADATA = "/.well-known/oauth-authorization-server"
# The public document, and the one behind the admin token.
DOCUMENTS = ("/openapi.json", "/admin/openapi.json")
# Every other route that is not described is a page and answers with HTML, or leads to one.
FILES = frozenset(
    {
        *DOCUMENTS,
        "/.well-known/security.txt",
        "/client/files/<digest>/<file_name>",
        "/static/<path:filename>",
        *(f"/sample/{name}" for name in ("pdf", "json", "findings.csv")),
        *(f"/audits/<audit_id>/{name}" for name in ("pdf", "json", "findings.csv")),
        *(f"/audits/<audit_id>/calls/<finding_id>.{kind}" for kind in ("csv", "xlsx")),
        *("/findings.csv", "/findings.xlsx"),
        *("/spend.csv", "/spend.xlsx", "/spend.focus.csv"),
        "/settings/prices/export",
        "/dashboard/first",  # the page of the same name asks for it again and again
    }
)
_TOKEN = {"X-Admin-Token": ADMIN_TOKEN}
# Told of no operation: another method than it has.
_ANYWHERE = frozenset({405})


def is_described(rule: str) -> bool:
    return rule not in DOCUMENTS and (rule.startswith(_API) or rule == _METADATA)


def check_kind(rule: str, response: werkzeug.Response) -> None:
    """Fail where a route answers as an API does and isn't described."""
    is_page = response.mimetype == "text/html" or response.status_code == 303
    known = is_described(rule) or rule in FILES or is_page
    assert known, f"{rule}: {response.mimetype} of a route that is neither described nor a page"


def watch(app: Flask) -> None:
    """Let the application check its own answers; a wrong one fails the test that asked."""
    app.after_request(_check)


def documented_path(rule: str) -> str:
    return rule.replace("<", "{").replace(">", "}")


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Each by its method and path, with the parameters that its path shares."""
    return {
        f"{method} {path}": {
            **operation,
            "parameters": [*methods.get("parameters", []), *operation.get("parameters", [])],
        }
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }


def _check(response: Response) -> Response:
    rule = request.url_rule
    if rule is None or not is_described(rule.rule) or response.status_code in _ANYWHERE:
        return response
    method = "get" if request.method == "HEAD" else request.method.lower()
    # Tests have routes of their own.
    path = read_document()["paths"].get(documented_path(rule.rule), {})
    operation = path.get(method)
    if operation is not None:
        _compare(response, operation, f"{method} {rule.rule}")
    return response


def _compare(response: Response, operation: dict[str, Any], name: str) -> None:
    status = str(response.status_code)
    assert status in operation["responses"], f"{name}: {status} is not described"
    described = operation["responses"][status]
    content = described.get("content", {})
    # 304 has no body, and that of a redirect is for nobody.
    has_body = request.method != "HEAD" and response.status_code // 100 != 3
    if has_body and response.calculate_content_length() != 0:
        assert response.mimetype in content, f"{name}: {status} as {response.mimetype}"
        if response.mimetype == "application/json":
            validate(json.loads(response.get_data()), content["application/json"]["schema"])
    documented = set(described.get("headers", {}))
    for header in _ALWAYS & documented:
        assert header in response.headers, f"{name}: {status} without {header}"
    found = {header for header in _DESCRIBED if header in response.headers}
    assert found <= documented, f"{name}: {status} with {found - documented}"


# Those that every answer has where they are described at all.
_ALWAYS = frozenset({"Retry-After", "ETag", "Location", "WWW-Authenticate"})
# What callers may build on; other headers are for browsers and for what stands between.
_DESCRIBED = _ALWAYS | {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"}


def validate(body: Any, schema: dict[str, Any]) -> None:
    """Raise where the body has not the shape, or a field more than the shape."""
    _validator(json.dumps(schema)).validate(body)


@cache
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({**json.loads(schema), "components": _closed()})


@cache
def _closed() -> dict[str, Any]:
    """The components, none of which takes a field that it does not name."""
    closed: dict[str, Any] = _close(read_document()["components"])
    return closed


def _close(node: Any) -> Any:
    if isinstance(node, list):
        return [_close(one) for one in node]
    if not isinstance(node, dict):
        return node
    found = {key: _close(value) for key, value in node.items()}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


@cache
def read_document() -> dict[str, Any]:
    """Read both documents of one application, merged, before a test makes its own.

    The newest application has the limiter.
    """
    client = make_application_on_nothing().test_client()
    documents = [client.get(path, headers=_TOKEN).get_json() for path in DOCUMENTS]
    return merge(*documents)


def make_application_on_nothing(**settings: Any) -> Flask:
    """Make an application whose database, Redis and storage don't exist."""
    from service.app import create_app
    from service.config import Config

    nowhere: dict[str, Any] = {
        "secret_key": "a secret key for tests, 32 or longer",
        "database_url": "postgresql://nobody@/none?host=/nowhere",
        "redis_url": "unix:///nowhere/valkey.sock",
        "storage_url": "file:///proc/nowhere",
        "admin_token": ADMIN_TOKEN,
    }
    return create_app(Config(**nowhere, **settings))


def merge(public: dict[str, Any], admin: dict[str, Any]) -> dict[str, Any]:
    """Merge the two documents, which share no path."""
    components = {
        kind: {**public["components"].get(kind, {}), **found}
        for kind, found in admin["components"].items()
    }
    return {
        **public,
        "tags": public["tags"] + admin["tags"],
        "paths": {**public["paths"], **admin["paths"]},
        "components": {**public["components"], **components},
    }
