"""Where an application wants people sent back to: which addresses it may register, and the way."""

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from service.errors import InvalidRequestError

MAX_REDIRECT_URIS: Final = 10
MAX_URI_LENGTH: Final = 500
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
# What browsers send unchanged, so that what is registered and what arrives can be equal.
_CHARACTERS: Final = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]+")
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_AUTHORITY: Final = re.compile(
    rf"(?P<host>{_LABEL}(\.{_LABEL})*|\[::1\])(:(?P<port>[1-9][0-9]{{0,4}}))?"
)
_OURS: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})


def check_redirect_uris(text: str) -> list[str]:
    """The addresses of a form, one a line; raises `InvalidRequestError` naming the line."""
    uris = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not uris:
        raise InvalidRequestError("Name at least one redirect URI.")
    if len(uris) > MAX_REDIRECT_URIS:
        raise InvalidRequestError(f"An application has at most {MAX_REDIRECT_URIS} redirect URIs.")
    for number, uri in enumerate(uris, 1):
        problem = find_problem(uri)
        if problem is not None:
            raise InvalidRequestError(f"Redirect URI {number} {problem}.")
    return uris


def find_problem(uri: str) -> str | None:
    """What keeps this from being registered, to follow its name in a sentence."""
    if len(uri) > MAX_URI_LENGTH:
        return f"has more than {MAX_URI_LENGTH} characters"
    if not uri.startswith(("https://", "http://")):
        return "begins with neither https:// nor, for this computer, http://localhost"
    if "#" in uri:
        return "has a fragment (#)"
    if _CHARACTERS.fullmatch(uri) is None:
        return "has characters that an address cannot have, or a wildcard"
    return _find_problem_of_parts(uri)


def _find_problem_of_parts(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "is no address"
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None or int(authority["port"] or 1) > 65_535:
        return "names no host and port: lower-case letters, digits, dots and hyphens"
    if parts.scheme == "http" and authority["host"] not in _LOOPBACK:
        return "is http://, which is for localhost, 127.0.0.1 and [::1] alone"
    if "*" in parts.path or _has_dot_segment(parts.path):
        return "has a wildcard, or a segment . or .., in its path"
    if any(name in _OURS for name, _ in parse_qsl(parts.query, keep_blank_values=True)):
        return "has a parameter that the answer adds itself"
    return None


def _has_dot_segment(path: str) -> bool:
    segments = path.lower().replace("%2e", ".").split("/")
    return "." in segments or ".." in segments


def add_parameters(uri: str, parameters: Iterable[tuple[str, str]]) -> str:
    """The address with these behind its own query, which stays as it is, byte for byte."""
    joint = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{joint}{urlencode(list(parameters))}"


def form_target(uri: str) -> str:
    """The source of this address as a Content-Security-Policy names it.

    Browsers apply `form-action` to where a form's answer redirects, too. A policy cannot name an
    IPv6 address; there only the scheme is left.
    """
    parts = urlsplit(uri)
    return "http:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"


def shown_host(uri: str) -> str:
    return urlsplit(uri).netloc
