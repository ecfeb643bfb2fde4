"""The API objects that blueprints register with; `create_app` binds them.

Each has a document of its own, so the public one can't mention an admin route.
"""

from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any, Final

from flask import Flask
from flask_smorest import Api as SmorestApi
from flask_smorest import Blueprint
from werkzeug.exceptions import HTTPException

from service.web.http.error_responses import on_http_exception
from service.web.schemas.ingest import ErrorSchema


class Api(SmorestApi):  # type: ignore[misc]  # it has no types
    """flask-smorest with the service's error responses.

    Routes are described when the document is first requested, because that takes as long as
    creating the rest of the application and most processes never need it.
    """

    ERROR_SCHEMA = ErrorSchema
    DEFAULT_ERROR_RESPONSE_NAME = None  # every route documents its own errors

    def __init__(self, config_prefix: str = "") -> None:
        self._describing = RLock()  # describing a route reads the document as well
        self._undescribed: list[Callable[[], None]] = []
        super().__init__(config_prefix=config_prefix)

    @property
    def spec(self) -> Any:
        """Return the document, after describing what was deferred."""
        with self._describing:
            undescribed = self._undescribed[:]
            self._undescribed.clear()
            for describe in undescribed:
                describe()
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = spec
        self._undescribed = []

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        """Register the routes now and describe them later."""
        app = self._app
        app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        app.register_blueprint(blueprint, **options)
        self.describe_later(partial(self._describe, app, blueprint))

    def describe_later(self, describe: Callable[[], None]) -> None:
        """Defer a description until the document is requested, in the order of these calls."""
        self._undescribed.append(describe)

    def _describe(self, app: Flask, blueprint: Blueprint) -> None:
        name, spec = blueprint.name, self._spec
        blueprint.register_views_in_doc(self, app, spec, name=name, parameters=None)
        spec.tag({"name": name, "description": blueprint.description})

    def _register_pagination_header(self) -> None:
        """Leave out the pagination component; we don't paginate by header."""

    def handle_http_exception(self, error: HTTPException) -> Any:
        return on_http_exception(error)


api: Final = Api()
admin_api: Final = Api("ADMIN")
