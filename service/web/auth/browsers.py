"""Recognize a browser: the cookies of this site, and the cookie that a sign-in link belongs to.

A request for a sign-in link gets a random cookie, whose hash is stored with the link. Following
the link signs in at once only with this cookie, so neither a program that follows links in mails
nor a link that another site opens can sign anyone in.
"""

import re
import secrets
from typing import Final

from flask import Flask, Response, current_app, request

from service.config import Config
from service.core import tokens

# The names over http on a loopback address. Over https they have a prefix with which browsers let
# no other host of the same domain set them.
SESSION_COOKIE: Final = "tallystick_session"
BROWSER_COOKIE: Final = "tallystick_browser"
_PREFIX: Final = "__Host-"
_BROWSER_SECONDS: Final = 365 * 24 * 60 * 60
# Browsers and email clients send these headers when they prefetch a link.
_PURPOSE_HEADERS: Final = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
_PURPOSES: Final = ("prefetch", "prerender", "preview")
# User agents of later browsers also contain earlier names, so the first match wins.
_BROWSERS: Final = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
_PRODUCT: Final = re.compile(r"[A-Za-z][A-Za-z-]{0,19}/[0-9][0-9.]{0,11}")


def cookie_name(name: str, base_url: str) -> str:
    return f"{_PREFIX}{name}" if base_url.startswith("https://") else name


def init_browsers(app: Flask, config: Config) -> None:
    """Name the cookies after the base URL, and end those with the names of earlier releases."""
    app.config["SESSION_COOKIE_NAME"] = cookie_name(SESSION_COOKIE, config.base_url)
    app.config["BROWSER_COOKIE_NAME"] = cookie_name(BROWSER_COOKIE, config.base_url)
    if app.config["SESSION_COOKIE_NAME"] != SESSION_COOKIE:

        @app.after_request
        def end_old_cookie(response: Response) -> Response:
            if SESSION_COOKIE in request.cookies:
                response.delete_cookie(SESSION_COOKIE, secure=True, httponly=True, samesite="Lax")
            return response


def has_session_cookie() -> bool:
    return current_app.config["SESSION_COOKIE_NAME"] in request.cookies


def find_browser_hash() -> bytes | None:
    """Return the hash of this browser's cookie, if it has one."""
    secret = request.cookies.get(current_app.config["BROWSER_COOKIE_NAME"], "")
    return tokens.find_hash(tokens.Kind.BROWSER, secret)


def remember_browser() -> tuple[str, bytes]:
    """Return the secret of this browser's cookie, new if it has none, and its hash.

    Pass the secret to `set_browser_cookie`.
    """
    secret = request.cookies.get(current_app.config["BROWSER_COOKIE_NAME"], "")
    known = tokens.find_hash(tokens.Kind.BROWSER, secret)
    return (secret, known) if known is not None else tokens.mint_hashed(tokens.Kind.BROWSER)


def set_browser_cookie(response: Response, secret: str) -> None:
    response.set_cookie(
        current_app.config["BROWSER_COOKIE_NAME"],
        secret,
        max_age=_BROWSER_SECONDS,
        secure=True,
        httponly=True,
        samesite="Lax",
    )


def is_browser_of(browser_hash: bytes | None) -> bool:
    """Check whether this browser asked for a link, and whether a person is following the link."""
    own = find_browser_hash()
    if own is None or browser_hash is None or not secrets.compare_digest(own, browser_hash):
        return False
    # An image, a frame or a script that names the link isn't a person who follows it.
    is_page = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    return is_page and request.method == "GET" and not is_prefetch()


def is_prefetch() -> bool:
    """Check whether a program looks at the page before a person does."""
    purposes = " ".join(request.headers.get(name, "") for name in _PURPOSE_HEADERS).lower()
    return any(purpose in purposes for purpose in _PURPOSES)


def describe_browser(user_agent: str) -> str:
    """Return the names of the browser and operating system of a user agent, in our own words.

    Its text is a caller's: of an unknown program only a name and a version may remain.
    """
    browser, system = _name(_BROWSERS, user_agent), _name(_SYSTEMS, user_agent)
    if browser is None:
        product = _PRODUCT.match(user_agent)
        return system or (product[0] if product else "Unknown browser")
    return f"{browser} on {system}" if system else browser


def _name(known: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((name for mark, name in known if mark in user_agent), None)
