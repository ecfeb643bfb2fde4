"""`tallystick-check`: whether the DSN is right and a batch would be accepted, in one sentence."""

from __future__ import annotations

import gzip
import os
import socket
import ssl
import time
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from tallystick.sending import connection
from tallystick.sending.connection import Reply, make_deadline, make_trust, post
from tallystick.sending.dsn import VARIABLE, VERSIONS, Destination, parse_dsn

MOST_SECONDS_OFF = 120
_FORM = f"Set {VARIABLE} to https://<INGEST_KEY>@<host>, as the page of a new ingest key shows it."
# A service that accepts the key finds nothing in an empty batch.
_EMPTY_BATCH = gzip.compress(b'{"records":[]}')
_EMPTY = 422
_CERTIFICATE_TIMES = (9, 10)  # not yet valid, expired
_ANSWERS = {
    401: "The service rejected the ingest key: it is mistyped or was revoked. Create a new one on "
    "the service's Developer page.",
    402: "The key is right, but the subscription has lapsed or the plan's storage is full. Check "
    "the service's Billing page.",
    404: "{host} answers, but there is no Tallystick service at {url}. Check the host and path.",
    429: "The key is right, but too many requests were made with it. Wait a minute and try again.",
}


class Verdict(NamedTuple):
    """Whether records can be sent, and a sentence on that."""

    can_send: bool
    sentence: str


def check(text: str, *, allow_http: bool = False) -> Verdict:
    """Check a DSN, up to what the service says to an empty batch; never raises."""
    if not text.strip():
        return Verdict(False, f"{VARIABLE} is not set. {_FORM}")
    destination = parse_dsn(text)
    if destination is None:
        return Verdict(False, f"{VARIABLE} is not a DSN. {_FORM}")
    if destination.file is not None:
        path, folder = destination.file, os.path.dirname(destination.file)
        if not os.path.isdir(folder):
            return Verdict(False, f"The folder {folder} does not exist. Create it.")
        if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
            return Verdict(False, f"{path} can't be written. Check its permissions.")
        return Verdict(True, f"Records are written to {path}. Nothing is sent.")
    if destination.is_exposed and not allow_http:
        sentence = f"{VARIABLE} would send the ingest key unencrypted. Use https://, or pass "
        return Verdict(False, f"{sentence}allow_http=True to init() and --allow-http here.")
    try:
        # Post an empty batch, to the first version's address if there is no second.
        trust = make_trust() if destination.url.startswith("https") else None
        for version in reversed(VERSIONS):
            url = destination.ingest_url(version)
            reply = post(url, _EMPTY_BATCH, destination.headers(), trust, make_deadline())
            if reply.status != 404:
                break
        return _judge(reply, destination)
    except Exception as error:
        return Verdict(False, _explain(error, destination))


def _judge(reply: Reply, destination: Destination) -> Verdict:
    status, url = reply.status, destination.url
    if status == _EMPTY:
        try:  # how far this machine's clock is ahead of the service's
            off = time.time() - parsedate_to_datetime(reply.date or "").timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            off = 0
        if abs(off) <= MOST_SECONDS_OFF:
            return Verdict(True, f"The service at {url} accepts this key. Records can be sent.")
        way = "ahead of" if off > 0 else "behind"
        sentence = f"The clock of this machine is {abs(off) / 60:,.0f} minutes {way} the service's"
        return Verdict(False, f"{sentence}, so calls would have wrong times. Set the clock.")
    if status in _ANSWERS:
        return Verdict(False, _ANSWERS[status].format(host=_address(url), url=url))
    if 300 <= status < 400:
        sentence = f"{url} redirects to another address. Use that address in {VARIABLE}."
        return Verdict(False, sentence)
    if status >= 500:
        return Verdict(False, f"The service at {url} is unavailable (status {status}). Try again.")
    sentence = f"{_address(url)} answered with status {status}. A Tallystick service never does."
    return Verdict(False, f"{sentence} Check the host and the path.")


def _explain(error: BaseException, destination: Destination) -> str:
    """Return what a failed connection means, and what to do."""
    address = _address(destination.url)
    if isinstance(error, ssl.SSLCertVerificationError):
        start = f"The TLS certificate of {address} can't be verified ({error.verify_message})."
        if error.verify_code in _CERTIFICATE_TIMES:
            return f"{start} Renew it, or set the clock of this machine."
        return f"{start} Use the name that it is for, or name its issuer with SSL_CERT_FILE."
    if isinstance(error, ssl.SSLError):
        return f"{address} does not speak TLS on this port. Check the port, or use http://."
    if isinstance(error, socket.gaierror):
        return f"The host {address} was not found. Check its spelling, and this machine's DNS."
    if isinstance(error, ConnectionRefusedError):
        return f"{address} refuses connections. Check the host and the port, or start the service."
    if isinstance(error, (TimeoutError, socket.timeout)):
        seconds = f"{connection.TIMEOUT_SECONDS:g} seconds"
        return f"{address} did not answer within {seconds}. Check the firewall and the proxy."
    if isinstance(error, OSError):
        return f"{address} can't be reached ({type(error).__name__}). Check the network and proxy."
    return f"{address} did not answer with HTTP. Check the host, the port, and https:// or http://."


def _address(url: str) -> str:
    return urlsplit(url).netloc
