"""/docs: everything in /openapi.json is on a page that needs no JavaScript."""

import re
from typing import Any

import pytest
from flask.testing import FlaskClient

from service.web.openapi.reference import Reference
from service.web.pages.public.docs import with_code
from tests.service.support.browser import codes_of, words_of


@pytest.fixture
def page(client: FlaskClient) -> str:
    answer = client.get("/docs")
    assert answer.status_code == 200
    return answer.get_data(as_text=True)


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method.upper(), path, found)
        for path, methods in document["paths"].items()
        for method, found in methods.items()
        if method != "parameters"
    ]


def _cards(page: str) -> list[str]:
    return re.findall(r'<article class="card operation".*?</article>', page, re.DOTALL)


def _card(page: str, method: str, path: str) -> str:
    [card] = [one for one in _cards(page) if f"<h3><code>{method} {path}</code></h3>" in one]
    return card


def _anchor(card: str) -> str:
    return str(re.findall(r'id="([^"]+)"', card)[0])


def _pointed_at(card: str) -> list[str]:
    """Return the anchors of the operations that list the fields of these responses."""
    return re.findall(r'same as <a href="#([^"]+)">', card)


def test_every_operation_parameter_and_status_is_on_the_page(
    page: str, document: dict[str, Any]
) -> None:
    for method, path, found in _operations(document):
        card = _card(page, method, path)
        for parameter in found.get("parameters", []):
            assert parameter["name"] in codes_of(card)
        for status, answer in found["responses"].items():
            assert f"<strong>{status}</strong>" in card
            assert words_of(answer["description"]).replace("`", "")[:40] in words_of(card)
        for media_type in found.get("requestBody", {}).get("content", {}):
            assert media_type in codes_of(card)
        assert f'href="#{_anchor(card)}"' in page


def test_every_field_of_every_body_is_on_the_page(page: str, document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    cards = {_anchor(one): one for one in _cards(page)}
    fields = set(schemas["UsageRecord"]["properties"])
    assert {f"records[].{name}" for name in fields} <= set(codes_of(page))
    for method, path, found in _operations(document):
        card = _card(page, method, path)
        bodies = [found.get("requestBody", {}), *found["responses"].values()]
        for body in bodies:
            for media in body.get("content", {}).values():
                name = media["schema"].get("$ref", "").rpartition("/")[2]
                if name and name != "Error":
                    shown = card + "".join(cards[one] for one in _pointed_at(card))
                    assert set(schemas[name]["properties"]) <= set(codes_of(shown)), (path, name)


def test_shapes_bounds_scopes_and_errors_are_listed_once(page: str) -> None:
    pointing = _card(page, "GET", "/r/{token}/json")
    [anchor] = _pointed_at(pointing)
    assert anchor == _anchor(_card(page, "GET", "/api/v1/audits/{audit_id}/report"))
    assert "Fields of the 200 response: same as GET" in words_of(pointing)
    # Responses of one shape are listed together with each example.
    card = _card(page, "POST", "/oauth/token")
    assert words_of(card).count("Fields of the 400, 401, 413, 429, 500 and 503 responses") == 2
    for error in ("invalid_request", "invalid_client", "server_error", "temporarily_unavailable"):
        assert f"&#34;error&#34;: &#34;{error}&#34;" in card
    # Bounds are described in words.
    words = words_of(_card(page, "POST", "/api/v1/ingest"))
    assert "records required array, 1 to 5,000 elements" in words
    assert "records[].prompt_tokens required integer, 0 to 1,000,000,000,000" in words
    assert "records[].tag string, at most 200 characters, may be null" in words
    assert "Authentication: ingest key" in words
    # The scopes that a route needs are listed.
    words = words_of(_card(page, "GET", "/api/v1/audits/{audit_id}/report"))
    needed = "with the scopes read:audits and read:findings"
    assert f"Authentication: read token or access token, {needed}" in words
    # Errors list their code and headers.
    words = words_of(_card(page, "POST", "/api/v1/ingest"))
    when = "The rate limit is exceeded, or your plan's number of queued audits is reached."
    assert f"429 Too Many Requests {when} error rate_limited" in words
    assert "header Retry-After" in words
    # No anchor is there twice.
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    # The versioning policy is on the page.
    policy = page.partition('id="versions"')[2].partition("<h2")[0]
    for words in ("/api/v1", "at least 12 months", "at least 24 months", "Deprecation", "Sunset"):
        assert words in policy


def test_markup_in_the_document_is_inert() -> None:
    assert with_code("`<b>` & <i>") == "<code>&lt;b&gt;</code> &amp; &lt;i&gt;"


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {
        "type": "object",
        "required": ["child"],
        "properties": {"child": {"$ref": "#/components/schemas/Tree"}},
    }
    answer = {
        "description": "",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tree"}}},
    }
    operation = {"tags": ["x"], "responses": {"200": answer}}
    reference = Reference(
        {
            "tags": [{"name": "x"}],
            "paths": {"/x": {"get": operation}},
            "components": {"schemas": {"Tree": tree}},
        }
    )
    [chapter] = reference.chapters()
    [found] = chapter.operations[0].answers
    assert [one.name for one in found.fields][:2] == ["child", "child.child"]
    assert found.example.startswith("{")
