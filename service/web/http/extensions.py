"""The extensions, unbound: `create_app` binds them. What a view needs of them is typed here."""

import math
import time
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import Any, Final, cast

from flask import Flask, current_app, g, request
from flask_limiter import Limiter, RequestLimit
from flask_smorest import Api as SmorestApi
from flask_smorest import Blueprint
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry
from werkzeug.exceptions import HTTPException

from service.config import Config
from service.core.blobs import BlobStore
from service.errors import on_http_exception
from service.jobs import AuditQueues
from service.payments.webhooks import Provider, load_providers
from service.web.schemas.ingest import ErrorSchema


class Api(SmorestApi):  # type: ignore[misc]  # it has no types
    """flask-smorest, answering errors as the rest of the service does.

    What is told of the routes is put together when it is first asked for: that takes as long as
    all else that an application is made of, and most processes are never asked.
    """

    ERROR_SCHEMA = ErrorSchema
    DEFAULT_ERROR_RESPONSE_NAME = None  # every route documents its own errors

    def __init__(self) -> None:
        self._describing = RLock()  # describing a route asks for the document, too
        self._undescribed: list[Callable[[], None]] = []
        super().__init__()

    @property
    def spec(self) -> Any:
        """The document, with all that was to be described later."""
        with self._describing:
            undescribed, self._undescribed = self._undescribed, []
            for describe in undescribed:
                describe()
        return self._spec

    @spec.setter
    def spec(self, spec: Any) -> None:
        self._spec = spec
        self._undescribed = []

    def register_blueprint(self, blueprint: Blueprint, **options: Any) -> None:
        """Register the routes now, and what is told of them later."""
        app = self._app
        app.extensions["flask-smorest"]["blp_name_to_api"][blueprint.name] = self
        app.register_blueprint(blueprint, **options)
        self.describe_later(partial(self._describe, app, blueprint))

    def describe_later(self, describe: Callable[[], None]) -> None:
        """Let the document be added to when it is asked for, in the order of these calls."""
        self._undescribed.append(describe)

    def _describe(self, app: Flask, blueprint: Blueprint) -> None:
        name, spec = blueprint.name, self._spec
        blueprint.register_views_in_doc(self, app, spec, name=name, parameters=None)
        spec.tag({"name": name, "description": blueprint.description})

    def _register_pagination_header(self) -> None:
        """Leave out the component that flask-smorest adds: nothing here is paginated."""

    def handle_http_exception(self, error: HTTPException) -> Any:
        return on_http_exception(error)


def client_address() -> str:
    """The peer's address, or what the configured number of trusted proxies say it is."""
    return request.remote_addr or "unknown"


def _remember_reset(limit: RequestLimit) -> None:
    g.retry_after_seconds = max(1, math.ceil(limit.window.reset_time - time.time()))


api: Final = Api()
# Moving windows, so that a limit holds over any 60 seconds, not only between two full minutes.
# Where Redis and the fallback both fail within one request, that request passes.
limiter: Final = Limiter(
    client_address,
    strategy="moving-window",
    in_memory_fallback_enabled=True,
    swallow_errors=True,
    on_breach=_remember_reset,
)


def init_extensions(app: Flask, config: Config) -> None:
    app.extensions["config"] = config
    app.extensions["blobs"] = BlobStore.from_url(config.storage_url)
    app.extensions["queues"] = AuditQueues.from_config(config)
    app.extensions["payment_providers"] = load_providers(config)
    app.config.update(
        RATELIMIT_STORAGE_URI=config.redis_url.replace("unix://", "redis+unix://", 1),
        RATELIMIT_STORAGE_OPTIONS=_redis_options(config),
    )
    limiter.init_app(app)


def current_config() -> Config:
    return cast(Config, current_app.extensions["config"])


def current_blobs() -> BlobStore:
    return cast(BlobStore, current_app.extensions["blobs"])


def find_payment_provider(name: str) -> Provider | None:
    """The provider, where it is configured."""
    providers = cast("dict[str, Provider]", current_app.extensions["payment_providers"])
    return providers.get(name)


def current_queues() -> AuditQueues:
    return cast(AuditQueues, current_app.extensions["queues"])


def _redis_options(config: Config) -> dict[str, object]:
    """Short timeouts, and one retry for a connection that was cut, none for a Redis that hangs."""
    return {
        "socket_timeout": config.redis_timeout_seconds,
        "socket_connect_timeout": config.redis_timeout_seconds,
        "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
    }
