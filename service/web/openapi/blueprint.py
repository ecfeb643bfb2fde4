"""A typed flask-smorest blueprint, with a decorator that documents a route's errors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

from flask import Request
from flask_smorest import Blueprint as SmorestBlueprint
from webargs.flaskparser import FlaskParser

from service.errors import (
    UnsupportedMediaTypeError,
    envelope,
    message_for,
    oauth_code_for,
)
from service.web.http.bodies import FORM_TYPES
from service.web.http.json_fields import decode_fields
from service.web.openapi.examples import find_example
from service.web.openapi.otlp_documents import status_content
from service.web.schemas.oauth import OAuthErrorSchema

F = TypeVar("F", bound=Callable[..., Any])

OAUTH_ERROR: Final = "OAuth errors"
OTLP_STATUS: Final = "google.rpc.Status"
JSON_OR_PAGE: Final = "the envelope, or a page for browsers"
_PARAMETERS: Final = "x-parameters"
_EXAMPLE_ID: Final = "0b9fa5a3a2c14d5cb7f3c1c1f7a9e6d2"
REQUEST_ID: Final = {
    "X-Request-Id": {
        "description": "The ID of this request in our logs.",
        "schema": {"type": "string"},
    }
}
RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Seconds to wait before you retry.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_CHALLENGE: Final = {
    "WWW-Authenticate": {
        "description": "The required credential (RFC 6750).",
        "schema": {"type": "string"},
    }
}
_BROKEN: Final = "Something went wrong on our side."
_TOO_LONG: Final = "The URL is longer than 4,094 bytes."
_EXTRA_HEADERS: Final[Mapping[int, Mapping[str, Any]]] = {429: RETRY_AFTER, 503: RETRY_AFTER}


def decorated(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return one decorator for several, the first of which is the outermost."""

    def decorate(view: F) -> F:
        for decorator in reversed(decorators):
            view = decorator(view)
        return view

    return decorate


class BodyParser(FlaskParser):
    """Parse JSON strictly."""

    def load_json(self, request: Request, schema: Any) -> Any:
        if request.mimetype != "application/json":
            raise UnsupportedMediaTypeError
        return decode_fields(request.get_data(cache=True), schema)

    def load_json_or_form(self, request: Request, schema: Any) -> Any:
        if request.mimetype in FORM_TYPES:
            return self.load_form(request, schema)
        return self.load_json(request, schema)


class Blueprint(SmorestBlueprint):  # type: ignore[misc]  # it has no types
    """The decorators of our views."""

    ARGUMENTS_PARSER = BodyParser()
    DEFAULT_LOCATION_CONTENT_TYPE_MAPPING = {
        **SmorestBlueprint.DEFAULT_LOCATION_CONTENT_TYPE_MAPPING,
        "json_or_form": "application/json",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._prepare_doc_cbks += [self._add_parameters, self._add_too_long]

    @staticmethod
    def _add_parameters(doc: dict[str, Any], doc_info: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add parameters documented by hand to those of the schema."""
        added = doc_info.get("manual_doc", {}).pop(_PARAMETERS, [])
        return {**doc, "parameters": [*doc.get("parameters", []), *added]} if added else doc

    @staticmethod
    def _add_too_long(doc: dict[str, Any], doc_info: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Document 414 for every route with query parameters."""
        if not any(parameter["in"] == "query" for parameter in doc.get("parameters", [])):
            return doc
        too_long = _error_document(414, _TOO_LONG, "application/json", {})
        return {**doc, "responses": {**doc.get("responses", {}), 414: too_long}}

    def route(self, rule: str, **options: Any) -> Callable[[F], F]:
        return cast("Callable[[F], F]", super().route(rule, **options))

    def arguments(self, schema: Any, **options: Any) -> Callable[[F], F]:
        # webargs would make an instance of a class for each request.
        made = schema() if isinstance(schema, type) else schema
        return cast("Callable[[F], F]", super().arguments(made, **options))

    def response(self, status: int, schema: Any, **options: Any) -> Callable[[F], F]:
        options = _completed(status, schema, options)
        return cast("Callable[[F], F]", super().response(status, schema, **options))

    def alt_response(self, status: int, **options: Any) -> Callable[[F], F]:
        options = _completed(status, options.get("schema"), options)
        return cast("Callable[[F], F]", super().alt_response(status, **options))

    def page_too(self, status: int = 200) -> Callable[[F], F]:
        """Document that browsers get this response as a page."""
        page = {"schema": {"type": "string"}, "content_type": "text/html"}
        return self.alt_response(status, description="", success=True, **page)

    def documented(
        self,
        *,
        operation: str,
        errors: Mapping[int, str],
        security: str | Sequence[str] = (),
        scopes: Sequence[str] = (),
        media_type: str = "application/json",
        parameters: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Callable[[F], F]:
        """Document a route: its operation ID, credentials, scopes and errors.

        `headers` are added to the errors that can occur after authentication.
        """
        names = (security,) if isinstance(security, str) else security
        schemes = [{name: list(scopes)} for name in names]
        documents = {
            status: _error_document(
                status, when, media_type, _error_headers(status, scopes, headers or {})
            )
            for status, when in {**errors, 500: _BROKEN}.items()
        }
        fields = {"operationId": operation, "security": schemes, "responses": documents}
        if parameters:
            fields[_PARAMETERS] = list(parameters)
        return cast("Callable[[F], F]", super().doc(**fields, **more))


def _completed(status: int, schema: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Add the request ID header and an example to a documented response."""
    headers = {**REQUEST_ID, **options.get("headers", {})}
    example = find_example(schema, status)
    defaults = {} if example is None else {"example": example}
    return {**defaults, **options, "headers": headers}


def _error_headers(
    status: int, scopes: Sequence[str], headers: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the headers of an error; a 403 has a challenge only if a scope is missing."""
    if status in (401, 403):
        return _CHALLENGE if status == 401 or scopes else {}
    return {**_EXTRA_HEADERS.get(status, {}), **headers}


def _error_document(
    status: int, when: str, kind: str, headers: Mapping[str, Any]
) -> dict[str, Any]:
    """Document an error; `kind` is a media type, or a shape that has a name here."""
    return {
        "description": when,
        "headers": {**REQUEST_ID, **headers},
        "content": _error_content(status, kind),
    }


def _error_content(status: int, kind: str) -> dict[str, Any]:
    example: dict[str, Any]
    if kind == OAUTH_ERROR:
        example = {"error": oauth_code_for(status), "error_description": message_for(status)}
        return {"application/json": {"schema": OAuthErrorSchema, "example": example}}
    if kind == OTLP_STATUS:
        return status_content(message_for(status))
    if kind in ("application/json", JSON_OR_PAGE):
        page = _error_content(status, "text/html") if kind == JSON_OR_PAGE else {}
        schema = {"$ref": "#/components/schemas/Error"}
        example = envelope(status, message_for(status), _EXAMPLE_ID)
        return {"application/json": {"schema": schema, "example": example}, **page}
    return {kind: {"schema": {"type": "string"}}}
