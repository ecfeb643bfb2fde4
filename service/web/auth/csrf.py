"""Cross-site request forgery: what a browser may be made to send from another site's page.

A request that could change something is refused where the browser says that another site made it.
HTML forms carry a token besides.
"""

from typing import Final
from urllib.parse import urlsplit

from flask import Flask, request
from flask_wtf.csrf import CSRFProtect, validate_csrf
from wtforms import ValidationError

from service.errors import ForbiddenError
from service.web.auth.admin_gate import is_admin_path
from service.web.auth.web_sessions import COOKIE_NAME
from service.web.http.bodies import FORM_TYPES, read_body
from service.web.http.current import current_config
from service.web.http.paths import AUTH_PREFIX, OAUTH_CALLS, is_api_path

_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_MAX_FORM_BYTES: Final = 64 * 1024
# Forms that hold a file: their views look at the token as it streams by, before the file.
_FILE_FORMS: Final = frozenset({"/upload"})

TOKEN_FIELD: Final = "csrf_token"  # noqa: S105 - a field's name
_csrf: Final = CSRFProtect()


def refuse_forgeries(app: Flask) -> None:
    """Check every request that could change something, before anything else looks at it."""
    app.config.update(
        WTF_CSRF_CHECK_DEFAULT=False,  # `_check` decides which requests need a token
        WTF_CSRF_FIELD_NAME=TOKEN_FIELD,
        WTF_CSRF_TIME_LIMIT=None,  # as long as the session that it belongs to
    )
    _csrf.init_app(app)
    app.before_request(_check)


def _check() -> None:
    if request.method in _SAFE_METHODS or request.url_rule is None:
        return
    rule, has_session = request.url_rule.rule, COOKIE_NAME in request.cookies
    if rule in OAUTH_CALLS:
        return  # the secret of the client is in them, and the browser's cookie means nothing
    if has_session or not is_api_path(rule):
        _check_origin()
    if _needs_token(rule, has_session):
        _check_token()


def _needs_token(rule: str, has_session: bool) -> bool:
    """Pages always do. Sign-in and administration also serve programs, which have no forms.

    No other site can make a browser send the administrator's header, but whatever adds it to the
    browser's own requests adds it to those, too.
    """
    if is_api_path(rule) or rule in _FILE_FORMS:
        return False
    if is_admin_path(rule):
        return request.mimetype in FORM_TYPES
    if rule.startswith(AUTH_PREFIX):
        return has_session and request.mimetype in FORM_TYPES
    return True


def _check_origin() -> None:
    """Refuse what another site made a browser send; who sends neither header is no browser."""
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    is_own_site = site in (None, "same-origin", "none")
    # A page that tells nobody where it stands sends `null`; the other header then speaks for it.
    is_own_origin = origin is None or origin in _own_origins() or (origin == "null" and bool(site))
    if not (is_own_site and is_own_origin):
        raise ForbiddenError("This request came from another site's page.")


def _own_origins() -> tuple[str, str]:
    base = urlsplit(current_config().base_url)
    return f"{base.scheme}://{base.netloc}", request.host_url.rstrip("/")


def _check_token() -> None:
    read_body(_MAX_FORM_BYTES)  # kept, so that the view can read it again
    check_token(request.form.get(TOKEN_FIELD))


def check_token(token: str | None) -> None:
    """Raise `ForbiddenError` for what is not the token of this browser's session."""
    try:
        validate_csrf(token)
    except ValidationError as error:
        raise ForbiddenError(
            "This form is out of date. Go back, load its page again and send it once more."
        ) from error
