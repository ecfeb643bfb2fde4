"""A strict stand-in for the service's ingest address, and servers that misbehave in its place.

Plain Python of any version that the client runs on. The real service is used where what it makes of
the records matters; this one remembers every byte that was sent.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

COUNTS = {
    *("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens"),
    *("declared_max_tokens", "cache_write_1h_tokens", "reasoning_tokens", "web_searches"),
    *("audio_prompt_tokens", "audio_completion_tokens"),
    *("image_prompt_tokens", "image_completion_tokens"),
}
LABELS = {
    *("provider", "model", "endpoint", "request_id", "tag", "prefix_hash", "ts"),
    *("prefix_hash_16k", "prefix_hash_64k"),
    *("environment", "session_id", "region"),
    *("service_tier", "status"),
}
REQUIRED = {"ts", "provider", "model", "prompt_tokens", "completion_tokens"}
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class LocalServer(ThreadingHTTPServer):
    """Serves within a `with` statement."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self: _Server) -> _Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


_Server = TypeVar("_Server", bound=LocalServer)


class QuietHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Collector(LocalServer):
    """Answers with `status` and `headers`; `records` are all that came, `problems` what was bad."""

    def __init__(self, status: int = 201, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.answer_headers = headers or {}
        self.batches: list[list[dict[str, Any]]] = []
        self.requests: list[dict[str, str]] = []
        self.missing: set[str] = set()  # paths that are answered by 404
        self.bytes = b""
        self.problems: list[str] = []
        super().__init__(_Handler)

    @property
    def dsn(self) -> str:
        return self.url.replace("http://", "http://ik_test@")

    @property
    def records(self) -> list[dict[str, Any]]:
        return [record for batch in list(self.batches) for record in batch]


class _Handler(QuietHandler):
    server: Collector

    def do_GET(self) -> None:
        """As a redirect would be followed, with the key and without the body."""
        self.server.requests.append({**dict(self.headers.items()), "path": self.path})
        self.send_error(404)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = zlib.decompress(raw, 31)
        self.server.bytes += body + repr(self.headers.items()).encode() + self.path.encode()
        self.server.requests.append({**dict(self.headers.items()), "path": self.path})
        records = json.loads(body)["records"]
        for record in records:
            problem = find_problem(record)
            if problem:
                self.server.problems.append(problem)
        status = 404 if self.path in self.server.missing else self.server.status
        if status < 300:
            self.server.batches.append(records)
        self.send_response(status)
        for name, value in self.server.answer_headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


def find_problem(record: dict[str, Any]) -> str | None:
    """What the service would refuse the record for."""
    unknown = record.keys() - COUNTS - LABELS - {"latency_ms", "prefix_hashes"}
    missing = REQUIRED - record.keys()
    if unknown or missing:
        return f"unknown {unknown}, missing {missing}"
    for name, value in record.items():
        if name in COUNTS and not (type(value) is int and 0 <= value <= 10**12):
            return f"{name} is {value!r}"
        if name in LABELS and not (isinstance(value, str) and 0 < len(value) <= 200):
            return f"{name} is {value!r}"
    for level in record.get("prefix_hashes", ()):
        if not re.fullmatch("[0-9a-f]{16}", level):
            return f"prefix_hashes has {level!r}"
    if not MOMENT.fullmatch(record["ts"]) or len(record.get("tag", "")) > 120:
        return f"{record['ts']}, {record.get('tag')}"
    return None


class Silent:
    """Takes connections and never answers one."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = f"http://ik_test@127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()


def refusing_dsn() -> str:
    """Of a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://ik_test@127.0.0.1:{listener.getsockname()[1]}"


# An address that is routed nowhere, so that connecting waits for its time to be up.
DEAD_DSN = "https://ik_test@192.0.2.1:9"
