"""Hide the admin endpoints from everyone without the admin token.

A request for a path under /admin without the token becomes a request for an unknown route before
any other code sees it, so its response is the same as for every unknown route and method.
"""

import hashlib
import hmac
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import Flask, g, request
from limits import RateLimitItemPerMinute
from redis.exceptions import RedisError
from werkzeug.exceptions import NotFound

from service.core.logs import get_logger
from service.errors import NotFoundError
from service.web.http.current import current_config
from service.web.http.limits import client_address, limiter

P = ParamSpec("P")
R = TypeVar("R")

ADMIN_PREFIX: Final = "/admin"
TOKEN_HEADER: Final = "X-Admin-Token"  # noqa: S105 - a header's name

_log = get_logger(__name__)


def hide_admin(app: Flask) -> None:
    """Register the gate; only the hook that assigns the request ID may run before it."""
    app.before_request(_hide)


def is_admin_path(path: str) -> bool:
    return path == ADMIN_PREFIX or path.startswith(f"{ADMIN_PREFIX}/")


def require_admin(view: Callable[P, R]) -> Callable[P, R]:
    """Require the admin token on a view, even if its path is outside the gate."""

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not g.get("is_admin"):
            raise NotFoundError
        return view(*args, **kwargs)

    return checked


def _hide() -> None:
    if not is_admin_path(request.path):
        return
    g.is_admin = may_administer()
    if not g.is_admin:
        request.url_rule, request.view_args = None, None
        request.routing_exception = NotFound()


def may_administer() -> bool:
    """Check the token; after too many wrong ones from its network, refuse the right one too."""
    if not request.headers.get(TOKEN_HEADER):
        return False
    network = client_address()
    limit = RateLimitItemPerMinute(current_config().admin_refusals_per_minute)
    # WSGI decodes header bytes as Latin-1, regardless of their encoding.
    given = request.headers.get(TOKEN_HEADER, "").encode("latin-1", "replace")
    # Comparing digests keeps a token's length out of the timing as well; all are compared.
    digest = hashlib.sha256(given).digest()
    wanted = [hashlib.sha256(token.encode()).digest() for token in current_config().admin_tokens]
    is_right = any([hmac.compare_digest(digest, one) for one in wanted])
    try:
        if is_right:
            return limiter.limiter.test(limit, "admin", network)
        limiter.limiter.hit(limit, "admin", network)
    except RedisError:
        pass  # without Redis, the token alone decides
    if not is_right:
        _log.warning("admin_token_refused", network=network)
    return is_right
