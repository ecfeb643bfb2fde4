"""Nobody without the administrator's token learns that there is an administration.

A request for any path under /admin that lacks the token is made a request for an unknown route
before anything has looked at it, so whatever answers those answers it, whatever its method is.
"""

import hashlib
import hmac
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import Flask, g, request
from werkzeug.exceptions import NotFound

from service.errors import NotFoundError
from service.web.http.current import current_config

P = ParamSpec("P")
R = TypeVar("R")

ADMIN_PREFIX: Final = "/admin"
TOKEN_HEADER: Final = "X-Admin-Token"  # noqa: S105 - a header's name


def hide_admin(app: Flask) -> None:
    """Must be the first hook but that which names the request."""
    app.before_request(_hide)


def is_admin_path(path: str) -> bool:
    return path == ADMIN_PREFIX or path.startswith(f"{ADMIN_PREFIX}/")


def require_admin(view: Callable[P, R]) -> Callable[P, R]:
    """Admit who passed the gate, should a route of the administration ever lie beside it."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not g.get("is_admin"):
            raise NotFoundError
        return view(*args, **kwargs)

    return checked


def _hide() -> None:
    if not is_admin_path(request.path):
        return
    g.is_admin = _has_token()
    if not g.is_admin:
        request.url_rule, request.view_args = None, None
        request.routing_exception = NotFound()


def _has_token() -> bool:
    """Whether the header holds the token; nothing is the token where none is set."""
    # WSGI hands over a header's bytes as Latin-1, whatever they were meant to be.
    given = request.headers.get(TOKEN_HEADER, "").encode("latin-1", "replace")
    wanted = current_config().admin_token.encode()
    # Digests, so that the time of the comparison does not tell the token's length either.
    is_equal = hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(wanted).digest())
    return is_equal and bool(wanted)
