"""Applications that tests share: one in a test process for each set of settings.

Making an application takes longer than most tests do. A shared one is reset before each test.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import werkzeug.test
from flask import Flask

from service.app import create_app
from service.config import Config
from service.core.blobs import BlobStore
from service.core.logs import configure_logging
from service.web.auth.credential_usage import init_credential_usage
from service.web.http.limits import limiter
from service.web.openapi.api import Api, admin_api, api
from service.web.pages.public.health import init_health
from tests.service.support.compiled_routes import compile_once
from tests.service.support.compiled_templates import compile_templates_once
from tests.service.support.described import read_document, watch
from tests.service.support.scenes import Sessions

# The test client ends the boundary of a form with a random number, and one in some hundred
# boundaries is longer than the 70 characters that a server accepts.
vars(werkzeug.test)["random"] = lambda: 0.5
compile_once()


@dataclass(frozen=True)
class _Shared:
    """An application, and what it was made with; the limiter and the APIs are the process's."""

    app: Flask
    config: dict[str, Any]
    extensions: dict[str, Any]
    limiter: dict[str, Any]
    apis: dict[Api, dict[str, Any]]


_APIS: Final = (api, admin_api)
_shared: Final[dict[Config, _Shared]] = {}


def make_application(config: Config, sessions: Sessions) -> Flask:
    """Make an application whose answers are compared with its documents; it has the limiter."""
    read_document()
    compile_templates_once()
    app = create_app(config)
    app.extensions["session_factory"] = app.extensions["connect"] = sessions
    watch(app)
    limiter._storage_dead = False  # what an earlier test's application may have found
    return app


def share_application(config: Config, sessions: Sessions) -> Flask:
    """Return the process's application of these settings, reset; routes cannot be added to it."""
    # Each test has blobs of its own, and only what `_reset` replaces knows where they are.
    key = replace(config, storage_url="file:///")
    if key not in _shared:
        _shared[key] = _made(make_application(config, sessions))
    shared = _shared[key]
    _reset(shared, config, sessions)
    return shared.app


def _made(app: Flask) -> _Shared:
    apis = {each: dict(each.__dict__) for each in _APIS}
    return _Shared(app, dict(app.config), dict(app.extensions), dict(limiter.__dict__), apis)


def _reset(shared: _Shared, config: Config, sessions: Sessions) -> None:
    app = shared.app
    app.config.clear()
    app.config.update(shared.config)
    app.extensions.clear()
    app.extensions.update(shared.extensions)
    app.extensions["config"] = config
    app.extensions["blobs"] = BlobStore.from_url(config.storage_url)
    app.extensions["session_factory"] = app.extensions["connect"] = sessions
    init_credential_usage(app)
    init_health(app, config)
    limiter.__dict__.update(shared.limiter)
    for each, attributes in shared.apis.items():
        each.__dict__.update(attributes)
    configure_logging(config.log_level)
