"""Calls of Amazon Bedrock through botocore, and so boto3: converse, invoke_model, their streams.

Every service's calls go through the same method; those of others are let through at once. The body
of an `invoke_model` is never read for the program, but its usage is as the program reads it.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from weakref import ref

from tallystick.calls import Call, begin_elsewhere
from tallystick.capture import note_fault
from tallystick.hooks.responses import Pieces
from tallystick.hooks.wrapping import around
from tallystick.reading.usage.reader import members_of

# Headers, under the names of the same counts in a stream's last event.
_HEADERS = {
    "x-amzn-bedrock-input-token-count": "inputTokenCount",
    "x-amzn-bedrock-output-token-count": "outputTokenCount",
    "x-amzn-bedrock-cache-read-input-token-count": "cacheReadInputTokenCount",
    "x-amzn-bedrock-cache-write-input-token-count": "cacheWriteInputTokenCount",
}
_PRELUDE = 12  # bytes before a frame's headers
_METRICS, _SIGN = "amazon-bedrock-invocationMetrics", b"amazon-bedrock-invocationMetrics"
_USAGE = b'"usage"'
_LONGEST_REST = 4_000_000  # bytes
_MOST_USAGES = 16
# The endpoint of each operation, and the member of the response that is a stream.
_OPERATIONS = {
    "Converse": ("converse", None),
    "ConverseStream": ("converse", "stream"),
    "InvokeModel": ("invoke", None),
    "InvokeModelWithResponseStream": ("invoke", "body"),
}


def _begin(client: Any, args: Any, kwargs: Any) -> tuple[Call, str | None] | None:
    """Begin a call with what `converse` says of its limit; the body of others is not parsed."""
    found = _OPERATIONS.get(args[0] if args else kwargs["operation_name"])
    if found is None:
        return None
    endpoint, stream = found
    asked = args[1] if len(args) > 1 else kwargs["api_params"]
    limits = asked.get("inferenceConfig") or {}
    members = {
        "model": asked.get("modelId"),
        "max_tokens": limits.get("maxTokens"),
        "system": asked.get("system"),
        "messages": asked.get("messages"),
    }
    # The events of Claude's streams have a usage whose later members replace earlier ones.
    is_claude = endpoint == "invoke" and "anthropic." in str(asked.get("modelId"))
    library = "anthropic" if is_claude else "bedrock"
    call = begin_elsewhere(library, "aws", endpoint, members)
    return None if call is None else (call, stream)


def _end_or_follow(begun: tuple[Call, str | None], answer: dict[str, Any]) -> None:
    call, stream = begun
    metadata = answer["ResponseMetadata"]
    call.request_id = metadata.get("RequestId")
    if stream is not None:
        _Watch(call, answer[stream], _tier_of(answer))
        return
    if "usage" in answer:
        _count(call, answer)
        call.end()
        return
    take_headers(call, metadata["HTTPHeaders"])
    call.arrived(None, False)
    _Body(call, answer.get("body"), _tier_of(answer))


def _tier_of(answer: dict[str, Any]) -> object:
    tier = answer.get("serviceTier")
    return tier.get("type") if isinstance(tier, dict) else tier


def _count(call: Call, answer: dict[str, Any]) -> None:
    call.take(answer.get("usage"), None, _tier_of(answer))


def _see_usage(call: Call, document: dict[str, Any], tier: object) -> None:
    """Take the usage of a body or an event in a model's own format, under the request's ID."""
    holder = members_of(document.get("message")) or document
    if members_of(holder.get("usage")):
        is_partial = holder is not document
        model = holder.get("model")
        call.take_partial(holder["usage"], model, is_partial=is_partial, tier=tier)


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


class Frames(Pieces):
    """Reads a stream of Bedrock's from its bytes: frames of a length, headers and a document."""

    __slots__ = ()

    def _see_whole(self, data: bytes) -> bytes:
        while len(data) >= _PRELUDE:
            size = int.from_bytes(data[:4], "big")
            if not _PRELUDE < size <= len(data):
                break
            headers = int.from_bytes(data[4:8], "big")
            document = json.loads(data[_PRELUDE + headers : size - 4] or b"{}")
            if "bytes" in document:
                inner = b64decode(document["bytes"])
                document = json.loads(inner) if b'"usage"' in inner or _SIGN in inner else {}
            if _METRICS in document or "inputTokens" in (document.get("usage") or {}):
                take_document(self.call, document)
            elif self.call.library == "anthropic":
                self.call.see(document)
            data = data[size:]
        return data


class _Body:
    """In the place of `read` of a body's stream, which all ways to read it lead to.

    Ends the call when the body was read, or else when it is dropped: then what its headers say
    counts. Only what follows the name of a usage is kept, until the program has read the rest.
    """

    __slots__ = ("__weakref__", "_call", "_kind", "_rest", "_stream", "_tier")

    def __init__(self, call: Call, body: Any, tier: object) -> None:
        self._call, self._tier, self._rest = call, tier, b""
        stream = body._raw_stream
        self._kind, self._stream = type(stream), ref(stream)
        stream.__dict__["read"] = self.read
        call.capture.unparsed[id(self)] = ref(self)

    def read(self, *args: Any, **kwargs: Any) -> Any:
        try:
            data = self._kind.read(self._stream(), *args, **kwargs)
        except Exception:
            self._call.status = "error"
            self.end(is_over=True)
            raise
        try:
            if not self._call.has_ended:
                self._see(data)
                if not data or (args or (None,))[0] is None:
                    self.end(is_over=True)
        except Exception:
            note_fault()
        return data

    def _see(self, data: bytes) -> None:
        rest = self._rest + data
        begin = rest.find(_USAGE)
        self._rest = rest[begin:] if begin >= 0 else rest[1 - len(_USAGE) :]
        if len(self._rest) > _LONGEST_REST:
            self._rest = b""
        elif begin >= 0 and rest.rstrip().endswith(b"}"):
            # The usage of the whole answer: what follows it closes one object, the answer.
            end = len(self._rest)
            for _ in range(_MOST_USAGES):
                end = self._rest.rfind(_USAGE, 0, end)
                if end < 0:
                    return
                try:
                    document = json.loads(b"{" + self._rest[end:])
                except ValueError:
                    continue
                if members_of(document.get("usage")):
                    self._rest = b""
                    _see_usage(self._call, document, self._tier)
                    self.end(is_over=True)
                    return

    def end(self, *, is_over: bool) -> None:
        """End the call if nothing more will be read; never raises."""
        if is_over:
            self._call.capture.unparsed.pop(id(self), None)
            self._rest = b""
            self._call.end()

    def __del__(self) -> None:
        self.end(is_over=True)


class _Watch:
    """In the place of an event stream's parser: sees each event, and ends the call at the last."""

    __slots__ = ("_call", "_kind", "_stream", "_tier")

    def __init__(self, call: Call, stream: Any, tier: object) -> None:
        self._call, self._tier = call, tier
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
        elif "chunk" in parsed:
            data = parsed["chunk"].get("bytes", b"")
            if _SIGN in data:
                self._call.take_metrics(json.loads(data)[_METRICS])
                self._call.end()
            elif _USAGE in data:
                _see_usage(self._call, json.loads(data), self._tier)

    def __del__(self) -> None:
        self._call.end()


wrap_api_call = around(_begin, _end_or_follow)
POINTS = (("BaseClient", ("_make_api_call",), wrap_api_call),)
