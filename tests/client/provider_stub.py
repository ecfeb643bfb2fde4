"""A local server that speaks the providers' wire formats: JSON, server-sent events, event streams.

Plain Python of any version that the client runs on: tests start it in other environments too.
Every text that it answers holds `CANARY`, and every count is a different number.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from tests.client.collector import LocalServer, QuietHandler

CANARY = "canary-7f3a"
TEXT = f"{CANARY} answered"
CHAT_USAGE = {
    "prompt_tokens": 101,
    "completion_tokens": 23,
    "total_tokens": 124,
    "prompt_tokens_details": {"cached_tokens": 47, "cache_write_tokens": 11, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
RESPONSES_USAGE = {
    "input_tokens": 211,
    "output_tokens": 31,
    "total_tokens": 242,
    "input_tokens_details": {"cached_tokens": 59, "cache_write_tokens": 13},
    "output_tokens_details": {"reasoning_tokens": 5},
}
EMBEDDINGS_USAGE = {"prompt_tokens": 307, "total_tokens": 307}
MESSAGES_USAGE = {
    "input_tokens": 401,
    "output_tokens": 43,
    "cache_read_input_tokens": 61,
    "cache_creation_input_tokens": 17,
}
# prompt, completion, cached, written: as a record has them.
CHAT_COUNTS = (101, 23, 47, 11)
RESPONSES_COUNTS = (211, 31, 59, 13)
EMBEDDINGS_COUNTS = (307, 0, None, None)
MESSAGES_COUNTS = (401 + 61 + 17, 43, 61, 17)

Json = dict[str, Any]
Event = tuple[str, Json]
CHAT_MODEL = "gpt-4o-2024-08-06"
MESSAGES_MODEL = "claude-sonnet-4-6"


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
            self._answer(body, text_completion(), text_events())
        elif path.endswith("/embeddings"):
            self._send_json(embeddings())
        elif path.endswith("/responses"):
            self._answer_responses(body)
        elif path.endswith("/count_tokens"):
            self._send_json({"input_tokens": 9})
        elif path.endswith("/images/generations"):
            self._send_json(images())
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


def completion() -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": CHAT_MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": TEXT, "refusal": None},
            }
        ],
        "usage": CHAT_USAGE,
    }


def chat_events(*, with_usage: bool, chunks: int = 20) -> list[Event]:
    events = [_chat_chunk([_delta(f"{CANARY} ")]) for _ in range(chunks - 1)]
    events.append(_chat_chunk([{**_delta(""), "finish_reason": "stop"}]))
    if with_usage:
        events = [{**event, "usage": None} for event in events]
        events.append({**_chat_chunk([]), "usage": CHAT_USAGE})
    return [("", event) for event in events]


def _chat_chunk(choices: list[Json]) -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": CHAT_MODEL,
        "choices": choices,
    }


def _delta(text: str) -> Json:
    return {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}


def text_completion() -> Json:
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1_700_000_000,
        "model": "gpt-3.5-turbo-instruct",
        "choices": [{"index": 0, "text": TEXT, "finish_reason": "stop", "logprobs": None}],
        "usage": CHAT_USAGE,
    }


def text_events() -> list[Event]:
    chunk = {**text_completion(), "usage": None}
    return [("", chunk), ("", chunk), ("", {**chunk, "choices": [], "usage": CHAT_USAGE})]


def embeddings() -> Json:
    return {
        "object": "list",
        "model": "text-embedding-3-small",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5]}],
        "usage": EMBEDDINGS_USAGE,
    }


def images() -> Json:
    usage = {"input_tokens": 50, "output_tokens": 4_160, "total_tokens": 4_210}
    return {"created": 1_700_000_000, "data": [{"b64_json": "AAAA"}], "usage": usage}


def response(response_id: str, status: str) -> Json:
    text = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    output = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    is_done = status == "completed"
    return {
        "id": response_id,
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": CHAT_MODEL,
        "output": [output] if is_done else [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": RESPONSES_USAGE if is_done else None,
    }


def responses_events() -> list[Event]:
    begun, done = response("resp_1", "in_progress"), response("resp_1", "completed")
    item = {**done["output"][0], "content": [], "status": "in_progress"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place: Json = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[Event] = [
        ("response.created", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.content_part.added", {**place, "part": part}),
        ("response.output_text.delta", {**place, "delta": TEXT}),
        ("response.output_text.done", {**place, "text": TEXT}),
        ("response.content_part.done", {**place, "part": {**part, "text": TEXT}}),
        ("response.output_item.done", {"output_index": 0, "item": done["output"][0]}),
        ("response.completed", {"response": done}),
    ]
    return [
        (name, {"type": name, "sequence_number": number, **event})
        for number, (name, event) in enumerate(events)
    ]


def message() -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MESSAGES_MODEL,
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": MESSAGES_USAGE,
    }


def messages_events(chunks: int = 17) -> list[Event]:
    """The counts of the end are cumulative, and the cached ones are only told at the start."""
    begun = {**message(), "content": [], "stop_reason": None}
    begun["usage"] = {**MESSAGES_USAGE, "output_tokens": 1}
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
