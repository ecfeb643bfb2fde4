"""Calls of Amazon Bedrock through botocore, and so boto3: converse, invoke_model, their streams.

Every service's calls go through the same method; those of others are let through at once.
"""

from __future__ import annotations

import functools
import json
from base64 import b64decode
from typing import Any, Callable
from weakref import ref

from tallystick.calls import Call, begin_elsewhere
from tallystick.capture import note_fault

# Headers, under the names of the same counts in a stream's last event.
_HEADERS = {
    "x-amzn-bedrock-input-token-count": "inputTokenCount",
    "x-amzn-bedrock-output-token-count": "outputTokenCount",
    "x-amzn-bedrock-cache-read-input-token-count": "cacheReadInputTokenCount",
    "x-amzn-bedrock-cache-write-input-token-count": "cacheWriteInputTokenCount",
}
_PRELUDE = 12  # bytes before a frame's headers
_METRICS, _SIGN = "amazon-bedrock-invocationMetrics", b"amazon-bedrock-invocationMetrics"
# The endpoint of each operation, and the member of the response that is a stream.
_OPERATIONS = {
    "Converse": ("converse", None),
    "ConverseStream": ("converse", "stream"),
    "InvokeModel": ("invoke", None),
    "InvokeModelWithResponseStream": ("invoke", "body"),
}


def wrap_api_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _make_api_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        call = None
        try:
            found = _OPERATIONS.get(args[0] if args else kwargs["operation_name"])
            if found is not None:
                call = _begin(found[0], args[1] if len(args) > 1 else kwargs["api_params"])
        except Exception:
            note_fault()
        answer = original(self, *args, **kwargs)
        try:
            if call is not None and found is not None:
                _end_or_follow(call, answer, found[1])
        except Exception:
            note_fault()
        return answer

    return _make_api_call


def _begin(endpoint: str, asked: dict[str, Any]) -> Call | None:
    """Begin a call with what `converse` says of its limit; the body of others is not parsed."""
    limits = asked.get("inferenceConfig") or {}
    members = {
        "model": asked.get("modelId"),
        "max_tokens": limits.get("maxTokens"),
        "system": asked.get("system"),
        "messages": asked.get("messages"),
    }
    return begin_elsewhere("bedrock", "aws", endpoint, members)


def _end_or_follow(call: Call, answer: dict[str, Any], stream: str | None) -> None:
    metadata = answer["ResponseMetadata"]
    call.request_id = metadata.get("RequestId")
    if stream is not None:
        _Watch(call, answer[stream])
        return
    if "usage" in answer:
        _count(call, answer)
    else:
        take_headers(call, metadata["HTTPHeaders"])
    call.end()


def _count(call: Call, answer: dict[str, Any]) -> None:
    tier = (answer.get("serviceTier") or {}).get("type")
    call.take(answer.get("usage"), None, tier)


def take_document(call: Call, document: dict[str, Any]) -> None:
    """Take the counts of a body or an event of Bedrock's that another library has got."""
    if _METRICS in document:
        call.take_metrics(document[_METRICS])
    else:
        _count(call, document)


def take_headers(call: Call, headers: Any) -> None:
    """Take the counts of a response whose body is in a model's own format."""
    numbers = {ours: int(headers[name]) for name, ours in _HEADERS.items() if name in headers}
    if numbers:
        call.take_metrics(numbers)


class Frames:
    """Reads a stream of Bedrock's from its bytes: frames of a length, headers and a document."""

    __slots__ = ("call",)

    def __init__(self, call: Call) -> None:
        self.call = call

    def see(self, data: bytes) -> bytes:
        """Return what follows the last whole frame."""
        try:
            while len(data) >= _PRELUDE:
                size = int.from_bytes(data[:4], "big")
                if not _PRELUDE < size <= len(data):
                    break
                headers = int.from_bytes(data[4:8], "big")
                self._see_document(json.loads(data[_PRELUDE + headers : size - 4] or b"{}"))
                data = data[size:]
        except Exception:
            note_fault()
            return b""
        return data

    def see_rest(self, rest: bytes) -> None:
        """Do nothing: what is no whole frame has no document."""

    def _see_document(self, document: dict[str, Any]) -> None:
        if "bytes" in document:
            inner = b64decode(document["bytes"])
            document = json.loads(inner) if b'"usage"' in inner or _SIGN in inner else {}
        if _METRICS in document or "inputTokens" in (document.get("usage") or {}):
            take_document(self.call, document)
        elif self.call.library == "anthropic":
            self.call.see(document)

    def end(self) -> None:
        self.call.end()


class _Watch:
    """In the place of an event stream's parser: sees each event, and ends the call at the last."""

    __slots__ = ("_call", "_kind", "_stream")

    def __init__(self, call: Call, stream: Any) -> None:
        self._call = call
        self._kind = type(stream)
        self._stream = ref(stream)  # or a dropped stream would be collected later than without us
        stream._parse_event = self

    def __call__(self, event: Any) -> Any:
        try:
            parsed = self._kind._parse_event(self._stream(), event)
        except Exception:
            self._call.status = "error"
            self._call.end()
            raise
        try:
            self._see(parsed)
        except Exception:
            note_fault()
        return parsed

    def _see(self, parsed: dict[str, Any]) -> None:
        if "metadata" in parsed:
            metadata = parsed["metadata"]
            _count(self._call, metadata)
            self._call.end()
        elif "chunk" in parsed and _SIGN in parsed["chunk"].get("bytes", b""):
            self._call.take_metrics(json.loads(parsed["chunk"]["bytes"])[_METRICS])
            self._call.end()

    def __del__(self) -> None:
        self._call.end()
