"""Requests to a provider, with a key that goes to that provider's host and nowhere else.

Nobody types an address: the host is the provider's, or the one that the operator has set for it in
CONNECTION_URLS. Redirects are not followed, because they would take the key elsewhere.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final, Self
from urllib.parse import urlencode

import httpx2

from service.connections.provider import Asking, Line, Provider, Window
from service.core.logs import get_logger
from service.models.base import utc_now

MAX_BYTES: Final = 64 << 20
WHOLE_SECONDS: Final = 60.0
_TIMEOUT_SECONDS: Final = 20.0
# What the client waits for itself; what takes longer is tried again by a later job.
_SHORT_WAIT_SECONDS: Final = 5.0
_TRIES: Final = 3
_FIRST_PAUSE_SECONDS: Final = 0.5
_MOST_PAGES: Final = 100

_log = get_logger(__name__)


class ConnectionFailedError(Exception):
    """The provider didn't give what was asked for. The class says why, and nothing else does."""

    code = "unreachable"


class RevokedKeyError(ConnectionFailedError):
    code = "revoked"


class WrongKeyError(ConnectionFailedError):
    code = "wrong_key"


class MissingRightError(ConnectionFailedError):
    code = "missing_right"


class ProviderDownError(ConnectionFailedError):
    code = "provider_down"


class RedirectedError(ConnectionFailedError):
    code = "redirected"


class UnreadableResponseError(ConnectionFailedError):
    code = "unreadable"


class MissingLibraryError(ConnectionFailedError):
    """The provider needs a library that isn't installed here."""

    code = "missing_library"


class ThrottledError(ConnectionFailedError):
    """The provider wants fewer requests."""

    code = "throttled"

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class EmptyWindowError(Exception):
    """The provider has nothing for these times, and says so with an error."""


@cache
def _read_authorities() -> ssl.SSLContext:
    """Once in a process: they take each client 15 ms."""
    return httpx2.create_ssl_context()


class Client:
    """The requests of one connection; `requests` counts them all."""

    def __init__(
        self,
        provider: Provider,
        key: str,
        base_url: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.requests = 0
        self._empty_statuses = provider.empty_statuses
        self._base_url = (base_url or provider.base_url).rstrip("/")
        self._sleep = sleep
        # The proxy of HTTPS_PROXY is the operator's, so it is used.
        self._http = httpx2.Client(
            headers=dict(provider.headers(key)),
            verify=_read_authorities(),
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def get(
        self,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the JSON of a response; try again what may pass, for a few seconds."""
        return self._try("GET", path, params=list(query), headers=dict(headers or {}))

    def post(self, path: str, body: Any) -> Any:
        """Return the JSON of a response to a query that a provider wants as a body."""
        return self._try("POST", path, json=body)

    def _try(self, method: str, path: str, **fields: Any) -> Any:
        for attempt in range(1, _TRIES + 1):
            try:
                return self._request(method, path, **fields)
            except ThrottledError as error:
                if attempt == _TRIES or error.seconds > _SHORT_WAIT_SECONDS:
                    raise
                self._sleep(error.seconds)
            except ProviderDownError:
                if attempt == _TRIES:
                    raise
                self._sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError

    def _request(self, method: str, path: str, **fields: Any) -> Any:
        self.requests += 1
        url, content = f"{self._base_url}{path}", bytearray()
        ends_at = time.monotonic() + WHOLE_SECONDS
        try:
            with self._http.stream(method, url, **fields) as response:
                for part in response.iter_bytes():
                    content += part
                    if len(content) > MAX_BYTES:
                        raise UnreadableResponseError
                    if time.monotonic() > ends_at:
                        raise ProviderDownError
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            # The texts of these errors may quote a proxy's address, and with it a password.
            _log.warning("provider_unreachable", error_type=type(error).__name__)
            raise ProviderDownError from None
        self._check(response, bytes(content))
        try:
            return json.loads(content, parse_float=str)  # a float would lose cents
        except (ValueError, RecursionError):
            raise UnreadableResponseError from None

    def _check(self, response: httpx2.Response, content: bytes) -> None:
        status = response.status_code
        if status == 200:
            return
        if 300 <= status < 400:
            raise RedirectedError
        if status == 429 or (status == 403 and "retry-after" in response.headers):
            raise ThrottledError(read_retry_after(response.headers.get("retry-after", "")))
        if status >= 500 or status == 408:
            raise ProviderDownError
        kind = ""  # of an error, as both providers name it; its text is never read
        with suppress(ValueError, AttributeError, RecursionError):
            error = json.loads(content).get("error")
            kind = str(error.get("code") or error.get("type") or "")
        if status == 401:
            raise WrongKeyError if kind in _WRONG_KINDS else RevokedKeyError
        if status == 403:
            raise MissingRightError
        if status == 404:
            raise MissingRightError
        if status in self._empty_statuses:
            raise EmptyWindowError
        raise UnreadableResponseError


class TokenClient(Client):
    """A client that first exchanges its key, at another host, for the token of its requests."""

    def __init__(self, provider: Provider, base_url: str, sign_in_host: str, sign_in: str) -> None:
        super().__init__(provider, "", base_url)
        self._own_url = self._base_url
        self._sign_in_url = self._base_url if base_url else sign_in_host
        self._sign_in, self._token = sign_in, ""

    def form(self) -> Mapping[str, str]:
        """Return what is exchanged."""
        raise NotImplementedError

    def _try(self, method: str, path: str, **fields: Any) -> Any:
        if not self._token:
            content = urlencode(self.form()).encode()
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            found = super()._try("POST", self._sign_in, content=content, headers=headers)
            self._token = str(found["access_token"])
        return super()._try(method, path, **fields)

    def _request(self, method: str, path: str, **fields: Any) -> Any:
        self._base_url = self._own_url if self._token else self._sign_in_url
        if self._token:
            fields["headers"] = {"Authorization": f"Bearer {self._token}"}
        return super()._request(method, path, **fields)

    def _check(self, response: httpx2.Response, content: bytes) -> None:
        if response.status_code == 400 and not self._token:
            raise RevokedKeyError  # not everywhere is a deleted account or another secret a 401
        super()._check(response, content)


_WRONG_KINDS: Final = frozenset({"invalid_key_type", "wrong_key_type", "missing_scope"})


def read_retry_after(text: str) -> float:
    """Return the seconds of a Retry-After header: a number, or a date."""
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(text) - utc_now()).total_seconds())
    return 60.0


@contextmanager
def open_client(provider: Provider, key: str, base_url: str = "") -> Iterator[Asking]:
    """Open what makes the requests of a connection; one without a key will make none."""
    own = provider.open(key, base_url) if key else None
    client = own or Client(provider, key, base_url)
    with closing(client):
        yield client


def find_url(urls: str, provider: str) -> str:
    """Return the address that CONNECTION_URLS has for a provider, or "" for the provider's own."""
    entries = (entry.strip().partition("=") for entry in urls.split(","))
    return next((url for name, _sign, url in entries if name == provider), "")


def follow_pages(get: Callable[[str], Any], find_next: Callable[[Any], str | None]) -> list[Any]:
    """Return all pages of a query whose pages are cut anywhere; the token of the first is "".

    A token that comes twice would lead around in circles.
    """
    pages: list[Any] = []
    used, token = set[str](), ""
    while len(pages) < _MOST_PAGES and token not in used:
        used.add(token)
        pages.append(get(token))
        token = find_next(pages[-1]) or ""
        if not token:
            return pages
    raise UnreadableResponseError


@dataclass(frozen=True)
class Fetched:
    """All lines of a window. `is_empty` means that the provider has no such buckets at all."""

    lines: Sequence[Line]
    requests: int
    is_empty: bool = False


def fetch_window(client: Asking, provider: Provider, window: Window) -> Fetched:
    """Fetch all pages of a window; raise if any is missing."""
    span = window.report.span
    if span is None:
        return _fetch_pages(client, provider, window)
    end, parts = window.last or utc_now(), []
    first = window.first
    while first < end:
        last = first + span if window.last is None else min(first + span, window.last)
        parts.append(_fetch_pages(client, provider, Window(window.report, first, last)))
        first = last
    if len(parts) > 1 and any(part.is_empty for part in parts):  # which is no answer for a part
        raise UnreadableResponseError
    lines = tuple(line for part in parts for line in part.lines)
    requests = sum(part.requests for part in parts)
    return Fetched(lines, requests, is_empty=any(part.is_empty for part in parts))


def _fetch_pages(client: Asking, provider: Provider, window: Window) -> Fetched:
    """Fetch the pages of one query.

    A bucket that comes twice counts once, as the provider said it last: pages are cut between
    buckets. Where they are cut between rows, a row that comes twice counts once. A page token that
    was used before would lead around in circles.
    """
    buckets: dict[datetime, Sequence[Line]] = {}
    page, used, requests = None, set[str](), 0
    while True:
        try:
            body = provider.request(client, window, page)
            requests += 1
            found = provider.read_page(window.report, body)
        except EmptyWindowError as error:
            if page is not None:  # the window isn't empty: its first page was there
                raise UnreadableResponseError from error
            return Fetched((), requests + 1, is_empty=True)
        except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            raise UnreadableResponseError from error
        for bucket, lines in found.buckets.items():
            before = buckets.get(bucket, ()) if window.report.by_rows else ()
            if before:  # rows with the same labels are the same
                by_labels = {
                    tuple(value for value in vars(line).values() if isinstance(value, str)): line
                    for line in (*before, *lines)
                }
                lines = list(by_labels.values())
            buckets[bucket] = lines
        page = found.next_page
        if page is None:
            break
        if page in used:
            raise UnreadableResponseError
        used.add(page)
    within = (
        line
        for bucket, lines in buckets.items()
        if bucket >= window.first and (window.last is None or bucket < window.last)
        for line in lines
    )
    return Fetched(tuple(within), requests)
