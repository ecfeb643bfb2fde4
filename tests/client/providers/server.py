"""A local server that answers as Gemini, Mistral and Cohere do."""

from __future__ import annotations

import json
from typing import Any

from tests.client.collector import LocalServer, QuietHandler
from tests.client.providers.answers import EVENTS, job, reply


class Server(LocalServer):
    def __init__(self) -> None:
        super().__init__(_Handler)


class _Handler(QuietHandler):
    disable_nagle_algorithm = True  # or each piece of a stream would wait for the last

    def do_GET(self) -> None:
        self._send(json.dumps(job(self.path.rpartition("/")[2])).encode(), "application/json")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        found = reply(path, json.loads(raw or b"{}"))
        if found is None:
            self._send(b'{"message": "no such path"}', "application/json", 404)
        elif found[0] is not None:
            self._send(json.dumps(found[0]).encode(), "application/json")
        else:
            _, events, kind = found
            self._stream(events, kind, is_done=path.endswith("completions"))

    def _send(self, data: bytes, kind: str, status: int = 200) -> None:
        self._start(kind, status, ("Content-Length", str(len(data))))
        self.wfile.write(data)

    def _stream(self, events: list[dict[str, Any]], kind: str, *, is_done: bool) -> None:
        """Send each event in two pieces, as a network may cut it anywhere."""
        self._start(kind, 200, ("Transfer-Encoding", "chunked"))
        for event in events:
            data = json.dumps(event).encode()
            if kind == EVENTS:
                name = event.get("type") or event.get("event_type")
                data = (f"event: {name}\n" if name else "").encode() + b"data: " + data + b"\n"
            middle = len(data) // 2
            self._chunk(data[:middle])
            self._chunk(data[middle:] + b"\n")
        if is_done:
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError:  # hung up, which is what some styles do
            self.close_connection = True

    def _start(self, kind: str, status: int, length: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header(*length)
        self.end_headers()
