"""Hide the admin endpoints from everyone but administrators.

Administrators are programs with the admin token, and people: the owner of the installation and the
accounts in ADMIN_ACCOUNTS, for some minutes after they signed in. Any other request for a path
under /admin becomes a request for an unknown route before other code sees it, so its response is
the same as for every unknown route and method.

The admin token is shared and lives in a browser's extension or in a proxy, so everyone who uses
that browser has it. If ADMIN_ACCOUNTS is set, a browser with it needs an administrator's passkey as
well; programs send the token alone.
"""

import hashlib
import hmac
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from flask import Flask, g, request
from limits import RateLimitItemPerMinute
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import NotFound

from service.core.logs import get_logger
from service.errors import ForbiddenError, NotFoundError
from service.models.base import utc_now
from service.models.identity.passkeys import has_passkey
from service.models.identity.sign_in import KnownSession, did_use_passkey
from service.web.auth.recent_sign_in import is_recent
from service.web.auth.web_sessions import find_web_session
from service.web.http.bodies import FORM_TYPES
from service.web.http.current import current_config, current_session_factory, get_session
from service.web.http.limits import client_address, limiter

P = ParamSpec("P")
R = TypeVar("R")

ADMIN_PREFIX: Final = "/admin"
TOKEN_HEADER: Final = "X-Admin-Token"  # noqa: S105 - a header's name
# Browsers send these headers with every request to a secure site, and pages can't remove them.
_BROWSER_HEADERS: Final = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Origin")
_LONGEST: Final = timedelta(hours=12)  # since the sign-in

_log = get_logger(__name__)


def hide_admin(app: Flask) -> None:
    """Register the gate; only the hook that assigns the request ID may run before it."""

    @app.before_request
    def hide() -> None:
        if not is_admin_path(request.path):
            return
        g.is_admin = may_administer() or _is_administrator()
        if not g.is_admin:
            request.url_rule, request.view_args = None, None
            request.routing_exception = NotFound()


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


def may_see_admin(known: KnownSession) -> bool:
    """Check whether the account may administer the installation, once it has proved who it is."""
    config = current_config()
    return config.is_owner(known.email) or known.email in config.admin_emails


def _is_administrator() -> bool:
    """Check that the visitor is an administrator who has signed in lately, with their passkey.

    Accounts in ADMIN_ACCOUNTS need one; the owner needs one if the account has any.
    """
    try:
        known = find_web_session()
        if known is None or not may_see_admin(known) or not is_recent(known):
            return False
        with current_session_factory()() as session:
            is_proved = did_use_passkey(session, known.id) or (
                current_config().is_owner(known.email)
                and not has_passkey(session, known.account_id)
            )
    except SQLAlchemyError:
        return False
    if is_proved:
        g.admin_email = known.email
    return is_proved


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


def init_admin_passkeys(app: Flask) -> None:
    """Register the check of passkeys, which runs after the one of the admin token."""

    @app.before_request
    def require_passkey() -> None:
        emails = current_config().admin_emails
        is_browser = any(name in request.headers for name in _BROWSER_HEADERS)
        is_browser |= "text/html" in request.headers.get("Accept", "")
        is_browser |= request.mimetype in FORM_TYPES
        if not g.get("is_admin") or g.get("admin_email") or not emails or not is_browser:
            return
        known = find_web_session()
        if known is not None and known.email in emails:
            is_fresh = utc_now() - known.signed_in_at <= _LONGEST
            if is_fresh and did_use_passkey(get_session(), known.id):
                g.admin_email = known.email
                return
        raise ForbiddenError(
            "Sign in at /sign-in?next=/admin with the passkey of an administrator's account: one of"
            " those in ADMIN_ACCOUNTS."
        )
