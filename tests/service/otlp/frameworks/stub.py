"""A local server that plays five providers: it asks for a tool first, and answers what it returned.

Every text that it answers holds `CANARY`. Each provider has counts of its own, the same in each
answer, so that a sum over several calls is never taken for a call.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

CANARY: Final = "canary-7f3a"
TOOL: Final = "add"
CHAT: Final = {
    "prompt_tokens": 1_000,
    "completion_tokens": 50,
    "total_tokens": 1_050,
    "prompt_tokens_details": {"cached_tokens": 600},
    "completion_tokens_details": {"reasoning_tokens": 30},
}
RESPONSES: Final = {
    "input_tokens": 1_100,
    "output_tokens": 55,
    "total_tokens": 1_155,
    "input_tokens_details": {"cached_tokens": 700, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 35},
}
MESSAGES: Final = {
    "input_tokens": 800,
    "output_tokens": 40,
    "cache_read_input_tokens": 500,
    "cache_creation_input_tokens": 300,
    "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 300},
}
CONVERSE: Final = {
    "inputTokens": 700,
    "outputTokens": 45,
    "totalTokens": 1_245,
    "cacheReadInputTokens": 500,
    "cacheWriteInputTokens": 0,
}
GEMINI: Final = {
    "promptTokenCount": 1_200,
    "candidatesTokenCount": 60,
    "thoughtsTokenCount": 200,
    "cachedContentTokenCount": 800,
    "totalTokenCount": 1_460,
}
Json = dict[str, Any]
_ARGUMENTS: Final = {"a": 1, "b": 2}


@contextmanager
def provider_stub() -> Iterator[str]:
    """Yield the address of the providers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers = 0

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(b"{}", "application/json")

    def do_POST(self) -> None:
        raw = self._read()
        if "/envelope/" in self.path:  # of Sentry's own, lines of JSON
            self.do_GET()
            return
        body = json.loads(raw) if raw[:1] == b"{" else {}
        _Handler.answers += 1
        number, path = _Handler.answers, self.path.partition("?")[0]
        calls_tool = b'"%s"' % TOOL.encode() in raw and not _has_result(raw)
        if "converse" in path:
            self._send_json(_converse(number, calls_tool))
        elif path.endswith(":generateContent"):
            self._send_json(_gemini(number, calls_tool))
        elif path.endswith("count_tokens"):
            self._send_json({"input_tokens": 9})
        elif path.endswith("/messages"):
            whole = _message(number, str(body.get("model")), calls_tool)
            self._answer(body, whole, _message_events(whole))
        elif path.endswith("/responses"):
            whole = _response(number, str(body.get("model")), calls_tool)
            self._answer(body, whole, _response_events(whole))
        else:
            whole = _completion(number, str(body.get("model")), calls_tool)
            self._answer(body, whole, _completion_events(whole))

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, body: Json, whole: Json, events: list[Json]) -> None:
        if not body.get("stream"):
            self._send_json(whole)
            return
        lines = [
            (f"event: {each['type']}\n" if "type" in each else "") + f"data: {json.dumps(each)}\n\n"
            for each in events
        ]
        done = [] if "type" in events[0] else ["data: [DONE]\n\n"]
        self._send("".join((*lines, *done)).encode(), "text/event-stream")

    def _send_json(self, document: Json) -> None:
        self._send(json.dumps(document).encode(), "application/json")

    def _send(self, data: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("request-id", f"req_{_Handler.answers}")
        self.end_headers()
        self.wfile.write(data)


def _has_result(raw: bytes) -> bool:
    marks = (b"tool_result", b"toolResult", b"functionResponse", b"function_response")
    more = (b"function_call_output", b'"role":"tool"', b'"role": "tool"', b"Observation:")
    return any(mark in raw for mark in (*marks, *more))


def _completion(number: int, model: str, calls_tool: bool) -> Json:
    function = {"name": TOOL, "arguments": json.dumps(_ARGUMENTS)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    said: Json = {"content": None, "tool_calls": [call]} if calls_tool else {"content": CANARY}
    end = "tool_calls" if calls_tool else "stop"
    choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": end}
    answer = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1_760_000_000}
    return {**answer, "model": model, "choices": [choice], "usage": CHAT}


def _completion_events(whole: Json) -> list[Json]:
    (choice,) = whole["choices"]
    delta = {**choice["message"]}
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": 0, **delta["tool_calls"][0]}]
    base = {**whole, "object": "chat.completion.chunk", "usage": None}
    part = {"index": 0, "delta": delta, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    choices: tuple[list[Json], ...] = ([part], [end])
    return [
        *({**base, "choices": each} for each in choices),
        {**base, "choices": [], "usage": CHAT},
    ]


def _response(number: int, model: str, calls_tool: bool) -> Json:
    arguments = json.dumps(_ARGUMENTS)
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
    text = {"type": "output_text", "text": CANARY, "annotations": [], "logprobs": []}
    said: Json = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]}
    item = {**call, "name": TOOL, "arguments": arguments} if calls_tool else said
    answer = {"id": f"resp_{number}", "object": "response", "created_at": 1_760_000_000}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "status": "completed"}
    output = [{**item, "status": "completed"}]
    return {**answer, "model": model, "output": output, **rest, "usage": RESPONSES}


def _response_events(whole: Json) -> list[Json]:
    begun = {**whole, "output": [], "usage": None, "status": "in_progress"}
    (item,) = whole["output"]
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _message(number: int, model: str, calls_tool: bool) -> Json:
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": TOOL, "input": _ARGUMENTS}
    block = call if calls_tool else {"type": "text", "text": CANARY}
    end = "tool_use" if calls_tool else "end_turn"
    answer = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    rest = {"stop_reason": end, "stop_sequence": None, "usage": MESSAGES}
    return {**answer, "content": [block], **rest}


def _message_events(whole: Json) -> list[Json]:
    (block,) = whole["content"]
    is_text = block["type"] == "text"
    empty = {**block, "text": ""} if is_text else {**block, "input": {}}
    delta = {"type": "text_delta", "text": CANARY}
    if not is_text:
        delta = {"type": "input_json_delta", "partial_json": json.dumps(_ARGUMENTS)}
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**MESSAGES, "output_tokens": 1}}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": MESSAGES},
        {"type": "message_stop"},
    ]


def _converse(number: int, calls_tool: bool) -> Json:
    use = {"toolUseId": f"tooluse_{number}", "name": TOOL, "input": _ARGUMENTS}
    content = [{"toolUse": use} if calls_tool else {"text": CANARY}]
    answer = {"message": {"role": "assistant", "content": content}}
    end = "tool_use" if calls_tool else "end_turn"
    return {"output": answer, "stopReason": end, "usage": CONVERSE, "metrics": {"latencyMs": 5}}


def _gemini(number: int, calls_tool: bool) -> Json:
    call = {"functionCall": {"name": TOOL, "args": _ARGUMENTS}}
    part = call if calls_tool else {"text": CANARY}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    answer = {"candidates": [candidate], "usageMetadata": GEMINI}
    return {**answer, "modelVersion": "gemini-2.5-pro", "responseId": f"gemini-{number}"}
