"""flask-smorest's blueprint with types, and the decorator that documents a route's errors."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import msgspec
from flask import Request
from flask_smorest import Blueprint as SmorestBlueprint
from webargs.flaskparser import FlaskParser

from service.api.bodies import FORM_TYPES, decode_body
from service.errors import BadRequestError, UnsupportedMediaTypeError

F = TypeVar("F", bound=Callable[..., Any])

_REQUEST_ID: Final = {
    "X-Request-Id": {
        "description": "Names this request in our logs.",
        "schema": {"type": "string"},
    }
}
RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Seconds to wait before another try.",
        "schema": {"type": "integer", "minimum": 1},
    }
}
_CHALLENGE: Final = {
    "WWW-Authenticate": {
        "description": "Which credential is needed (RFC 6750).",
        "schema": {"type": "string"},
    }
}
_BROKEN: Final = "Something broke on our side; quote the request id."
_EXTRA_HEADERS: Final[Mapping[int, Mapping[str, Any]]] = {
    401: _CHALLENGE,
    403: _CHALLENGE,
    429: RETRY_AFTER,
    503: RETRY_AFTER,
}


class BodyParser(FlaskParser):
    """Reads JSON strictly, and adds `batch`: a body that the strict bulk decoder reads."""

    def load_batch(self, _request: Request, _schema: Any) -> Any:
        return {"records": decode_body()}

    def load_json(self, request: Request, _schema: Any) -> Any:
        if request.mimetype != "application/json":
            raise UnsupportedMediaTypeError
        try:
            return msgspec.json.decode(request.get_data(cache=True))
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadRequestError("The body is not valid JSON.") from error

    def load_json_or_form(self, request: Request, schema: Any) -> Any:
        if request.mimetype in FORM_TYPES:
            return self.load_form(request, schema)
        return self.load_json(request, schema)

    __location_map__ = {**FlaskParser.__location_map__, "batch": "load_batch"}


class Blueprint(SmorestBlueprint):  # type: ignore[misc]  # it has no types
    """The decorators that a view is declared with."""

    ARGUMENTS_PARSER = BodyParser()
    DEFAULT_LOCATION_CONTENT_TYPE_MAPPING = {
        **SmorestBlueprint.DEFAULT_LOCATION_CONTENT_TYPE_MAPPING,
        "batch": "application/json",
        "json_or_form": "application/json",
    }

    def route(self, rule: str, **options: Any) -> Callable[[F], F]:
        return cast("Callable[[F], F]", super().route(rule, **options))

    def arguments(self, schema: Any, **options: Any) -> Callable[[F], F]:
        return cast("Callable[[F], F]", super().arguments(schema, **options))

    def response(self, status: int, schema: Any, **options: Any) -> Callable[[F], F]:
        options["headers"] = {**_REQUEST_ID, **options.get("headers", {})}
        return cast("Callable[[F], F]", super().response(status, schema, **options))

    def alt_response(self, status: int, **options: Any) -> Callable[[F], F]:
        options["headers"] = {**_REQUEST_ID, **options.get("headers", {})}
        return cast("Callable[[F], F]", super().alt_response(status, **options))

    def documented(
        self,
        *,
        errors: Mapping[int, str],
        security: str | None = None,
        media_type: str = "application/json",
        **more: Any,
    ) -> Callable[[F], F]:
        """Document the credential and the error statuses of a route, each with its condition."""
        schemes: list[dict[str, list[str]]] = [{security: []}] if security else []
        documents = {
            status: _error_document(status, when, media_type)
            for status, when in {**errors, 500: _BROKEN}.items()
        }
        operation = {"security": schemes, "responses": documents, **more}
        return cast("Callable[[F], F]", super().doc(**operation))


def _error_document(status: int, when: str, media_type: str) -> dict[str, Any]:
    is_json = media_type == "application/json"
    schema = {"$ref": "#/components/schemas/Error"} if is_json else {"type": "string"}
    return {
        "description": when,
        "headers": {**_REQUEST_ID, **_EXTRA_HEADERS.get(status, {})},
        "content": {media_type: {"schema": schema}},
    }
