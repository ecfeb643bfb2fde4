"""Parse the URL of a target, and accept only what cannot mean two things.

Parsers of URLs disagree about unusual ones, and such a difference is how checks are bypassed.
"""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from service.models.notices.targets import SLACK
from service.notices.addresses import PrivateTargetError, resolve

MAX_LENGTH: Final = 2_000
SLACK_HOSTS: Final = ("hooks.slack.com", "hooks.slack-gov.com")
_PORTS: Final = {"https": 443, "http": 80}
_LOWEST_OTHER_PORT: Final = 1024  # below are the ports of protocols that aren't HTTP
_PRINTABLE: Final = re.compile(r"[!-~]+")
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
# What the C library reads as an IPv4 address: decimal, octal or hexadecimal, in one to four parts.
_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_CHECK_SECONDS: Final = 5.0


class InvalidTargetError(Exception):
    """The URL can't be a target; the message is safe to show."""


class TargetURL(NamedTuple):
    """`target` is what the request line asks for: the path and the query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse_url(text: str, *, allows_private: bool) -> TargetURL:
    """Return the parts of a URL; raise `InvalidTargetError` for any other text."""
    if not _PRINTABLE.fullmatch(text) or len(text) > MAX_LENGTH or "\\" in text:
        raise InvalidTargetError("Enter a full URL, such as https://example.com/hooks.")
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise InvalidTargetError("This URL isn't valid.") from error
    if parts.scheme not in (("https", "http") if allows_private else ("https",)):
        raise InvalidTargetError("The URL must start with https://.")
    if "@" in parts.netloc or parts.fragment or text.endswith("#"):
        raise InvalidTargetError("The URL must have no user name, password or fragment.")
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError as error:
            raise InvalidTargetError("This URL isn't valid.") from error
    elif not _HOST.fullmatch(host):
        raise InvalidTargetError("Write the host in ASCII, such as example.com.")
    elif _NUMERIC.fullmatch(host):
        try:
            ipaddress.IPv4Address(host)
        except ValueError as error:
            raise InvalidTargetError("Write an IP address as four decimal numbers.") from error
    port = _PORTS[parts.scheme] if port is None else port
    if not allows_private and port != _PORTS["https"] and port < _LOWEST_OTHER_PORT:
        raise InvalidTargetError("Use port 443, or a port from 1024 to 65535.")
    query = f"?{parts.query}" if parts.query else ""
    return TargetURL(parts.scheme, host, port, f"{parts.path or '/'}{query}")


def check_target(kind: str, text: str, *, allows_private: bool) -> TargetURL:
    """Check a URL before it is saved; its host must exist and be on the public internet."""
    url = parse_url(text, allows_private=allows_private)
    if kind == SLACK and url.host not in SLACK_HOSTS and not allows_private:
        raise InvalidTargetError("A Slack webhook URL starts with https://hooks.slack.com/.")
    try:
        resolve(url.host, url.port, seconds=_CHECK_SECONDS, allows_private=allows_private)
    except PrivateTargetError as error:
        raise InvalidTargetError("This host isn't on the public internet.") from error
    except OSError as error:
        raise InvalidTargetError("We couldn't find this host.") from error
    return url
