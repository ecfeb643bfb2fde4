"""What the stubs of all providers have in common: a server on this machine that plays an API.

Tests and demonstrations use it. It can change its mind, throttle, fail, repeat a page, drop a row
and revoke the key, as the real ones may.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit
from zlib import crc32

Query = Mapping[str, list[str]]
Headers = Mapping[str, str]
Moment = TypeVar("Moment")
_POLL_SECONDS: Final = 0.02


class Used(NamedTuple):
    """What a stub's world used, as it should be stored: one row of the report."""

    time: datetime
    project: str
    key: str
    model: str
    tier: str
    counts: tuple[int, int, int, int]  # prompt, cached, cache writes, completion


class Cost(NamedTuple):
    """What a stub's world paid, as it should be stored: one row of the report."""

    time: datetime
    project: str
    line_item: str
    amount: Decimal


@dataclass
class Answer:
    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Stub:
    """One provider's. `answer` plays its API; `faults` come first, one for each request."""

    answer: Callable[[str, Query, Headers], Answer]
    faults: list[Answer | Callable[[str, Query], Answer | None] | None] = field(
        default_factory=list
    )
    requests: list[tuple[str, Query]] = field(default_factory=list)
    url: str = ""
    lock: Any = field(default_factory=Lock)

    def respond(self, target: str, headers: Headers, content: bytes = b"") -> Answer:
        parts = urlsplit(target)
        query = parse_qs(parts.query, keep_blank_values=True)
        if content[:1] == b"{":  # the query of a provider that wants it as a body
            query |= {
                name: [value if isinstance(value, str) else json.dumps(value)]
                for name, value in json.loads(content).items()
            }
        elif headers.get("content-type") == "application/x-www-form-urlencoded":
            query |= parse_qs(content.decode())
        with self.lock:
            self.requests.append((parts.path, query))
            fault = self.faults.pop(0) if self.faults else None
        found = fault(parts.path, query) if callable(fault) else fault
        return found or self.answer(parts.path, query, headers)


@dataclass
class Paging:
    """How a stub cuts its buckets into pages."""

    buckets_per_page: int = 10_000
    repeats_pages: bool = False  # each page comes twice
    loops: bool = False  # the next page is always the same


class StalePageError(Exception):
    """The page token was made for other parameters."""


def cut(
    starts: Sequence[Moment], query: Query, limit: int, paging: Paging
) -> tuple[Sequence[Moment], str | None]:
    """Return the buckets of a page, and the token of the next.

    A token is good only for the parameters that it was made for.
    """
    shape = sorted((name, value) for name, value in query.items() if name != "page")
    mark, offset, times = f"{crc32(str(shape).encode()):x}", 0, 0
    if "page" in query:
        parts = query["page"][0].split("_")
        if parts[:2] != ["page", mark]:
            raise StalePageError
        offset, times = int(parts[2]), int(parts[3])
    following, again = offset + min(limit, paging.buckets_per_page), 0
    shown = starts[offset:following]
    if paging.repeats_pages and not times:
        following, again = offset, 1
    if paging.loops:
        following = 0
    has_more = following < len(starts)
    return shown, f"page_{mark}_{following}_{again}" if has_more else None


Result = Callable[[Mapping[str, Any], list[dict[str, Any]]], dict[str, Any]]


def group_rows(
    rows: Iterable[dict[str, Any]], names: Sequence[str], result: Result
) -> list[dict[str, Any]]:
    """Return a result for the rows that have the same values under these names."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.get(name) for name in names)].append(row)
    return [result(dict(zip(names, key, strict=True)), found) for key, found in groups.items()]


@contextmanager
def running(stub: Stub, port: int = 0) -> Iterator[Stub]:
    """Serve the stub on this machine until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise the second packet of a response waits 40 ms for the client to confirm the first.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            given = {name.lower(): value for name, value in self.headers.items()}
            sent = self.rfile.read(int(given.get("content-length", 0)))
            answer = stub.respond(self.path, given, sent)
            content = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_arguments: Any) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        stub.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()
