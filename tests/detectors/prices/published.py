"""A web server that publishes a price book, as genai-prices does."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def make_providers(rate: float) -> list[dict[str, Any]]:
    """Return a book as it is published: many models, and gpt-5.4 at this rate."""
    models = [
        {"id": f"m-{n}", "match": {"equals": f"m-{n}"}, "prices": {"input_mtok": 1}}
        for n in range(2_000)
    ]
    rates = {"input_mtok": rate, "output_mtok": 15}
    known = {"id": "gpt-5.4", "match": {"equals": "gpt-5.4"}, "prices": rates}
    openai = {"id": "openai", "name": "OpenAI", "api_pattern": "x", "models": [known, *models]}
    return [openai]


@dataclass
class Publisher:
    """What the server answers, and how often it was asked. It waits while `goes_on` is unset."""

    url: str = ""
    body: bytes = b"[]"
    status: int = 200
    requests: int = 0
    goes_on: threading.Event = field(default_factory=threading.Event)

    def publish(self, body: object) -> None:
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def started_publisher() -> Iterator[Publisher]:
    publisher = Publisher()
    publisher.goes_on.set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            publisher.requests += 1
            publisher.goes_on.wait(20)
            self.send_response(publisher.status)
            self.end_headers()
            self.wfile.write(publisher.body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
    thread.start()
    publisher.url = f"http://127.0.0.1:{httpd.server_port}/data.json"
    try:
        yield publisher
    finally:
        publisher.goes_on.set()
        httpd.shutdown()
        thread.join()
        httpd.server_close()
