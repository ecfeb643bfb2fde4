"""Where to send and with which key: one string of the environment, taken apart."""

from __future__ import annotations

import os
from typing import NamedTuple

from tallystick.version import __version__

VARIABLE = "SERVICE_DSN"
VERSIONS = (1, 2)  # of the record, of which a service may accept the first only


class Destination(NamedTuple):
    """The service's address, and the ingest key, which no representation shows.

    Or a file, which gets what would have been sent.
    """

    url: str
    key: str
    file: str | None = None

    def ingest_url(self, version: int) -> str:
        return f"{self.url}/api/v{version}/ingest"

    def headers(self) -> dict[str, str]:
        """Return the headers of every batch: compressed JSON, with the key."""
        return {
            "Authorization": f"Bearer {self.key}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "User-Agent": f"tallystick-python/{__version__}",
        }

    @property
    def is_exposed(self) -> bool:
        """Check whether the key would leave this machine unencrypted."""
        scheme, _, rest = self.url.partition("://")
        # The host as it is written: a name that resolves to this machine may change.
        host = rest.partition("/")[0]
        name = host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        numbers = name.split(".")
        is_v4 = len(numbers) == 4 and numbers[0] == "127" and all(map(str.isdigit, numbers))
        return scheme == "http" and not (is_v4 or name.lower() in ("localhost", "[::1]"))

    def __repr__(self) -> str:
        return f"Destination(url={self.url!r})"


def parse_dsn(text: str) -> Destination | None:
    """`https://<INGEST_KEY>@<host>`, a port and a path allowed; None where it is anything else.

    Or `file:///tmp/usage.jsonl`, or `file:usage.jsonl` in the current folder.
    """
    if text.strip().startswith("file:"):
        address = text.strip()[len("file:") :]
        if not address.startswith("//"):
            return Destination("", "", os.path.abspath(address)) if address else None
        host, slash, path = address[2:].partition("/")
        if host not in ("", "localhost") or not path:  # it is one of this machine
            return None
        from urllib.request import url2pathname  # only here: importing it takes long

        return Destination("", "", url2pathname(slash + path))
    scheme, _, rest = text.strip().partition("://")
    key, at, address = rest.partition("@")
    host, _, path = address.partition("/")
    is_plain = text.isascii() and text.strip().isprintable() and " " not in text.strip()
    if scheme not in ("https", "http") or not (key and at and is_plain):
        return None
    # A name or an address, IPv6 in brackets, with or without a port.
    name, bracket, port = host.rpartition("]")
    if bracket:
        is_host = name.startswith("[") and len(name) > 1
    else:
        name, colon, port = host.partition(":")
        is_host, port = bool(name) and "[" not in name, colon + port
    if not is_host or not _is_port(port) or any(mark in address for mark in "@?#"):
        return None
    if any(mark in key for mark in ":/?#[]@\\\"'"):
        return None
    base = f"{scheme}://{host}/{path}".rstrip("/")
    return Destination(base, key)


def _is_port(text: str) -> bool:
    if not text:
        return True
    digits = text[1:]
    return text[0] == ":" and digits.isdigit() and len(digits) < 6 and 0 < int(digits) < 65_536
