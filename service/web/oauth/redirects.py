"""Redirect URIs of an application: which it may register, and how they are used."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from service.errors import InvalidRequestError

MAX_REDIRECT_URIS: Final = 10
MAX_URI_LENGTH: Final = 500
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
# Characters that browsers send unchanged, so that registered and received URIs compare equal.
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+")
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_AUTHORITY: Final = re.compile(
    rf"(?P<host>{_LABEL}(\.{_LABEL})*|\[::1\])(:(?P<port>[1-9][0-9]{{0,4}}))?"
)
_RESERVED: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})


def check_redirect_uris(text: str) -> list[str]:
    """Return the URIs of a form, one per line; raise `InvalidRequestError` naming the line."""
    uris = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not uris:
        raise InvalidRequestError("Enter at least one redirect URI.")
    if len(uris) > MAX_REDIRECT_URIS:
        raise InvalidRequestError(f"Enter at most {MAX_REDIRECT_URIS} redirect URIs.")
    for number, uri in enumerate(uris, 1):
        problem = find_problem(uri)
        if problem is not None:
            raise InvalidRequestError(f"Redirect URI {number} {problem}.")
    return uris


def find_problem(uri: str) -> str | None:
    """Return why the URI can't be registered, as the end of a sentence; None if it can."""
    if len(uri) > MAX_URI_LENGTH:
        return f"is longer than {MAX_URI_LENGTH} characters"
    if not uri.startswith(("https://", "http://")):
        return "must start with https://, or with http://localhost for local development"
    if "#" in uri:
        return "must not contain a fragment (#)"
    if _CHARACTERS.fullmatch(uri) is None:
        return "contains a wildcard or characters that aren't allowed in a URL"
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "isn't a valid URL"
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None or int(authority["port"] or 1) > 65_535:
        return "needs a valid host and port: lowercase letters, digits, dots and hyphens"
    if parts.scheme == "http" and authority["host"] not in _LOOPBACK:
        return "may use http:// only with localhost, 127.0.0.1 or [::1]"
    segments = parts.path.lower().replace("%2e", ".").split("/")
    if "*" in parts.path or "." in segments or ".." in segments:
        return "must not contain a wildcard, . or .. in its path"
    if any(name in _RESERVED for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return f"must not contain any of these parameters: {', '.join(sorted(_RESERVED))}"
    return None


def add_parameters(uri: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Append parameters to the URI; its own query stays unchanged, byte for byte."""
    joint = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{joint}{urlencode(list(parameters))}"


def form_target(uri: str) -> str:
    """Return the URI's origin as a Content-Security-Policy source.

    Browsers apply `form-action` to redirects of a form's response as well. A policy can't name an
    IPv6 address, so only the scheme remains.
    """
    parts = urlsplit(uri)
    return "http:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"


def shown_host(uri: str) -> str:
    return urlsplit(uri).netloc
