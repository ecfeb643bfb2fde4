"""Security headers of every response, errors and files included; caching of private pages."""

from typing import Final

from flask import Flask, Response, g, request

from service.web.http.paths import AUTH_PREFIX, is_api_path

_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
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
    # A page's URL may be a signed link, so no other site may see it.
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_FORM_ACTION: Final = "form-action 'self'"


def allow_form_target(response: Response, source: str) -> None:
    """Let the forms of this response redirect to another site."""
    policy = _POLICY.replace(_FORM_ACTION, f"{_FORM_ACTION} {source}")
    response.headers["Content-Security-Policy"] = policy


def keep_private(response: Response) -> Response:
    """Keep a visitor's page out of caches; blueprints of such pages call it on every response."""
    response.headers["Cache-Control"] = "no-store"
    # Browsers without Sec-Fetch-Site name a form's page only where this allows it.
    response.headers["Referrer-Policy"] = "same-origin"
    return response


def keep_unlisted(response: Response) -> Response:
    """Keep a page out of caches and search engines: anyone with its URL can read it."""
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    return response


def add_security_headers(app: Flask) -> None:
    @app.after_request
    def secure(response: Response) -> Response:
        given = set(response.headers.keys(lower=True))  # faster than `setdefault` for each
        for name, value in SECURITY_HEADERS.items():
            if name.lower() not in given:
                response.headers.add(name, value)
        if is_api_path(request.path) or request.path.startswith(AUTH_PREFIX):
            # The caller may keep a response with an ETag; caches between may not.
            is_tagged = "ETag" in response.headers
            response.headers["Cache-Control"] = "private, no-cache" if is_tagged else "no-store"
        elif g.get("is_admin"):
            keep_private(response)
        return response
