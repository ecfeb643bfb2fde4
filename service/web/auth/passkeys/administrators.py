"""Require an administrator's passkey for /admin in a browser, if ADMIN_ACCOUNTS is set.

The admin token is shared and lives in a browser's extension or in a proxy, so everyone who uses
that browser has it. Programs send the token alone, as before.
"""

from datetime import timedelta
from typing import Final

from flask import Flask, g, request

from service.errors import ForbiddenError
from service.models.base import utc_now
from service.models.identity.sign_in import did_use_passkey
from service.web.auth.web_sessions import find_web_session
from service.web.http.bodies import FORM_TYPES
from service.web.http.current import current_config, get_session

# Browsers send these headers with every request to a secure site, and pages can't remove them.
_BROWSER_HEADERS: Final = ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Origin")
_LONGEST: Final = timedelta(hours=12)  # since the sign-in


def init_admin_passkeys(app: Flask) -> None:
    """Register the check, which runs after the one of the admin token."""
    app.before_request(_check)


def _check() -> None:
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
