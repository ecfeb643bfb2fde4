"""The security headers that every response carries, errors and files included."""

from typing import Final

from flask import Flask, Response, g, request

from service.errors import is_api_path

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",  # the small signs of the style base
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SECURITY_HEADERS: Final = {
    "Strict-Transport-Security": "max-age=31536000; includeSubDomains",
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # A page's address may be a signed link, so no other site ever learns it.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FORM_PAGES: Final = (
    "/sign-in",
    "/settings",
    "/developer",
    "/billing",
    "/upload",
    "/dashboard",
    "/audits/",
    "/oauth/",
)
_FORM_ACTION: Final = "form-action 'self'"


def allow_form_target(source: str) -> None:
    """Let the forms of this one answer lead on to another site."""
    g.form_target = source


def add_security_headers(app: Flask) -> None:
    app.after_request(_secure)


def _secure(response: Response) -> Response:
    response.headers.update(SECURITY_HEADERS)
    if "form_target" in g:
        policy = _POLICY.replace(_FORM_ACTION, f"{_FORM_ACTION} {g.form_target}")
        response.headers["Content-Security-Policy"] = policy
    if is_api_path(request.path) or request.path.startswith("/auth/"):
        # What can be asked for again by its ETag may be kept by who asked, and by nobody between.
        is_tagged = "ETag" in response.headers
        response.headers["Cache-Control"] = "private, no-cache" if is_tagged else "no-store"
    elif request.path.startswith(_FORM_PAGES) or g.get("is_admin"):
        response.headers["Cache-Control"] = "no-store"
        # Browsers without Sec-Fetch-Site say where a form stands only where this allows it.
        response.headers["Referrer-Policy"] = "same-origin"
    elif request.path.startswith("/r/"):
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response
