"""`tallystick up` says which component keeps it from being ready."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from service.operations.local.stack import find_down


class _Web(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.states = 200, {"database": "ok", "storage": "ok"}


class _Handler(BaseHTTPRequestHandler):
    server: _Web

    def do_GET(self) -> None:
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps({"components": self.server.states}).encode())

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def web() -> Iterator[_Web]:
    with _Web() as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def test_what_keeps_the_service_from_being_ready_is_named(web: _Web) -> None:
    assert find_down(web.server_port) == []
    assert find_down(1) is None
    web.status, web.states = 503, {"database": "ok", "storage": "down"}
    assert find_down(web.server_port) == ["storage"]
    web.states = {"database": "ok", "storage": "ok"}
    assert find_down(web.server_port) == ["draining"]
