"""A local server that speaks the providers' wire formats: JSON, server-sent events, event streams.

Plain Python of any version that the client runs on: tests start it in other environments too.
Every text that it answers holds `CANARY`, and every count is a different number.
"""

from __future__ import annotations

import base64
import copy
import functools
import json
import struct
import zlib
from pathlib import Path
from typing import Any, cast

from tests.client.collector import LocalServer, QuietHandler

CANARY = "canary-7f3a"
TEXT = f"{CANARY} answered"
# What is answered, by the name of its kind.
DOCUMENTS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())
CHAT_USAGE: dict[str, Any] = DOCUMENTS["completion"]["usage"]
# prompt, completion, cached, written: as a record has them.
CHAT_COUNTS = (101, 23, 47, 11)
RESPONSES_COUNTS = (211, 31, 59, 13)
EMBEDDINGS_COUNTS = (307, 0, None, None)
MESSAGES_COUNTS = (401 + 61 + 17, 43, 61, 17)

Json = dict[str, Any]
Event = tuple[str, Json]


class ProviderStub(LocalServer):
    """`seen` are the requests that came; `instead` has other answers, by how a path ends."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        self.polls: dict[str, int] = {}
        self.made = 0
        self.instead: dict[str, Json] = {}
        super().__init__(_Handler)


class _Handler(QuietHandler):
    server: ProviderStub

    def do_GET(self) -> None:
        self._note(b"")
        response_id = self.path.partition("?")[0].rpartition("/")[2]
        polls = self.server.polls[response_id] = self.server.polls.get(response_id, 0) + 1
        is_done = polls > 1 or not response_id.startswith("resp_bg")
        self._send_json(response(response_id, "completed" if is_done else "in_progress"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._note(raw)
        is_json = self.headers.get("Content-Type", "").startswith("application/json")
        body = json.loads(raw) if raw and is_json else {}
        path = self.path.partition("?")[0]
        instead = [self.server.instead[end] for end in self.server.instead if path.endswith(end)]
        if instead:
            self._send_json(instead[0])
        elif "invoke-with-response-stream" in path:
            self._send_event_stream(messages_events())
        elif path.endswith(("/messages", "/invoke", ":rawPredict", ":streamRawPredict")):
            self._answer(body, message(), messages_events())
        elif path.endswith("/chat/completions"):
            self._answer(body, completion(), self._chat_events(path, body))
        elif path.endswith("/completions"):
            self._answer(body, document("text_completion"), text_events())
        elif path.endswith("/embeddings"):
            self._send_json(document("embeddings"))
        elif path.endswith("/responses"):
            self._answer_responses(body)
        elif path.endswith("/count_tokens"):
            self._send_json({"input_tokens": 9})
        elif path.endswith("/images/generations"):
            self._send_json(document("images"))
        else:
            self._send_json({"error": {"message": "no such path"}}, 404)

    def _chat_events(self, path: str, body: Json) -> list[Event]:
        """Together sends the usage without being asked, Groq in a member of its own."""
        usage = (body.get("stream_options") or {}).get("include_usage")
        events = chat_events(with_usage=bool(usage) or path.startswith("/together"))
        if path.startswith("/groq"):
            events[-1][1]["x_groq"] = {"id": "req_1", "usage": CHAT_USAGE}
        return events

    def _answer_responses(self, body: Json) -> None:
        if body.get("background") and not body.get("stream"):
            self.server.made += 1
            self._send_json(response(f"resp_bg{self.server.made}", "queued"))
        else:
            self._answer(body, response("resp_1", "completed"), responses_events())

    def _answer(self, body: Json, whole: Json, events: list[Event]) -> None:
        is_stream = body.get("stream") or self.path.endswith(":streamRawPredict")
        if is_stream:
            self._send_events(events)
        else:
            self._send_json(whole)

    def _note(self, raw: bytes) -> None:
        self.server.seen.append((self.command, self.path, dict(self.headers.items()), raw))

    def _send_json(self, document: Json, status: int = 200) -> None:
        self._send(json.dumps(document).encode(), "application/json", status)

    def _send_events(self, events: list[Event]) -> None:
        """Each event in a chunk of its own, as they come from a vendor."""
        self._start(200, "text/event-stream", ("Transfer-Encoding", "chunked"))
        for name, document in [*events, ("", {})]:
            data = json.dumps(document) if document else "[DONE]"
            named = f"event: {name}\n" if name else ""
            if document or events[0][0] == "":
                self._chunk(f"{named}data: {data}\n\n".encode())
        self._chunk(b"")

    def _send_event_stream(self, events: list[Event]) -> None:
        self._start(200, "application/vnd.amazon.eventstream", ("Transfer-Encoding", "chunked"))
        for _, document in events:
            self._chunk(event_stream_message(document))
        self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        try:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        except OSError:  # hung up, which is what some tests do
            self.close_connection = True

    def _send(self, data: bytes, content_type: str, status: int) -> None:
        self._start(status, content_type, ("Content-Length", str(len(data))))
        self.wfile.write(data)

    def _start(self, status: int, content_type: str, length: tuple[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header(*length)
        self.send_header("x-request-id", f"req_{len(self.server.seen)}")
        self.send_header("request-id", f"req_{len(self.server.seen)}")
        self.end_headers()


def document(name: str) -> Json:
    return cast(Json, copy.deepcopy(DOCUMENTS[name]))


completion = functools.partial(document, "completion")
message = functools.partial(document, "message")


def chat_events(*, with_usage: bool, chunks: int = 20) -> list[Event]:
    chunk = document("chunk")
    delta = {"role": "assistant", "content": ""}
    last = {"index": 0, "delta": delta, "finish_reason": "stop"}
    events = [chunk] * (chunks - 1) + [{**chunk, "choices": [last]}]
    if with_usage:
        events = [{**event, "usage": None} for event in events]
        events.append({**chunk, "choices": [], "usage": CHAT_USAGE})
    return [("", event) for event in events]


def text_events() -> list[Event]:
    chunk = {**document("text_completion"), "usage": None}
    return [("", chunk), ("", chunk), ("", {**chunk, "choices": [], "usage": CHAT_USAGE})]


def response(response_id: str, status: str) -> Json:
    whole = {**document("response"), "id": response_id, "status": status}
    return whole if status == "completed" else {**whole, "output": [], "usage": None}


def responses_events() -> list[Event]:
    return [(name, event) for name, event in copy.deepcopy(DOCUMENTS["responses_events"])]


def messages_events(chunks: int = 17) -> list[Event]:
    """The counts of the end are cumulative, and the cached ones are only told at the start."""
    begun = {**message(), "content": [], "stop_reason": None}
    begun["usage"] = {**begun["usage"], "output_tokens": 1}
    delta = {"index": 0, "delta": {"type": "text_delta", "text": f"{CANARY} "}}
    ended = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    block = {"index": 0, "content_block": {"type": "text", "text": ""}}
    events: list[Event] = [
        ("message_start", {"message": begun}),
        ("content_block_start", block),
        *[("content_block_delta", delta) for _ in range(chunks)],
        ("content_block_stop", {"index": 0}),
        ("message_delta", {**ended, "usage": {"output_tokens": 43}}),
        ("message_stop", {}),
    ]
    return [(name, {"type": name, **event}) for name, event in events]


def event_stream_message(document: Json) -> bytes:
    """One message of the format that Bedrock streams in, with an event of a model's own format."""
    return event_message(
        "chunk", {"bytes": base64.b64encode(json.dumps(document).encode()).decode()}
    )


def event_message(name: str, document: Json, headers: dict[str, str] | None = None) -> bytes:
    payload = json.dumps(document)
    names = headers or {
        ":event-type": name,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    packed = b"".join(
        struct.pack(f"!B{len(name)}sBH{len(value)}s", len(name), name.encode(), 7, len(value),
                    value.encode())
        for name, value in names.items()
    )  # fmt: skip
    size = 16 + len(packed) + len(payload)
    prelude = struct.pack("!II", size, len(packed))
    whole = prelude + struct.pack("!I", zlib.crc32(prelude)) + packed + payload.encode()
    return whole + struct.pack("!I", zlib.crc32(whole))
