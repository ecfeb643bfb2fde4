"""Protect against CSRF: requests that another site makes a browser send.

A request that changes state is rejected if the browser's headers name another site. HTML forms
carry a token as well.
"""

import hashlib
from typing import Final
from urllib.parse import urlsplit

from flask import Flask, g, request
from flask_wtf.csrf import CSRFProtect, validate_csrf
from itsdangerous import Signer
from wtforms import ValidationError

from service.config import Config
from service.errors import ForbiddenError
from service.models.identity.security_events import EventKind
from service.web.auth.admin_gate import is_admin_path
from service.web.auth.browsers import has_session_cookie
from service.web.auth.security_events import record_refusal
from service.web.http.bodies import FORM_TYPES, SMALL_BYTES, read_body
from service.web.http.current import current_config
from service.web.http.paths import AUTH_PREFIX, OAUTH_CALLS, is_api_path

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
MAX_FORM_BYTES: Final = 64 * 1024
# Forms with a file: their views check the token while the body streams in, before the file.
_FILE_FORMS: Final = frozenset({"/upload"})

TOKEN_FIELD: Final = "csrf_token"  # noqa: S105 - a field's name
_csrf: Final = CSRFProtect()


def init_csrf(app: Flask, config: Config) -> None:
    """Check every request that changes state before its view runs."""
    # Flask-WTF signs tokens with the default of itsdangerous, which is SHA-1.
    Signer.default_digest_method = staticmethod(hashlib.sha256)
    app.config.update(
        WTF_CSRF_CHECK_DEFAULT=False,  # `check` decides which requests need a token
        WTF_CSRF_FIELD_NAME=TOKEN_FIELD,
        WTF_CSRF_TIME_LIMIT=None,  # valid as long as its session
        WTF_CSRF_SECRET_KEY=list(config.secret_keys),  # the last one signs
    )
    _csrf.init_app(app)

    @app.before_request
    def check() -> None:
        if request.method in _SAFE_METHODS or request.url_rule is None:
            return
        rule, has_session = request.url_rule.rule, has_session_cookie()
        if rule in OAUTH_CALLS:
            return  # authenticated by the client's secret, never by the browser's cookie
        if has_session or not is_api_path(rule):
            # Another site may have made a browser send this; browsers always send a header.
            site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
            is_own_site = site in (None, "same-origin", "none")
            base = urlsplit(current_config().base_url)
            own = (None, f"{base.scheme}://{base.netloc}", request.host_url.rstrip("/"))
            # A page with a strict referrer policy sends `null`; then the other header decides.
            is_own_origin = origin in own or (origin == "null" and bool(site))
            if not (is_own_site and is_own_origin):
                record_refusal(EventKind.CROSS_SITE_REFUSED)
                raise ForbiddenError("We blocked this request because it came from another site.")
        if _needs_token(rule, has_session):
            # Nobody without a session has a form with much in it.
            read_body(MAX_FORM_BYTES if has_session else SMALL_BYTES)  # kept for the view
            check_token(request.form.get(TOKEN_FIELD))


def _needs_token(rule: str, has_session: bool) -> bool:
    """Check whether the request needs a token: pages always do, programs never do.

    Another site can't send the admin header, but a browser extension that adds it to requests adds
    it to those of other sites as well, so admin forms need a token too. So does all that an
    administrator's session may do, whatever its type.
    """
    if is_api_path(rule) or rule in _FILE_FORMS:
        return False
    if is_admin_path(rule):
        return "admin_email" in g or request.mimetype in FORM_TYPES
    if rule.startswith(AUTH_PREFIX):
        return has_session and request.mimetype in FORM_TYPES
    return True


def check_token(token: str | None) -> None:
    """Raise `ForbiddenError` unless this is the token of the browser's session."""
    try:
        validate_csrf(token)
    except ValidationError as error:
        raise ForbiddenError(
            "This form has expired. Go back, reload the page and submit it again."
        ) from error
