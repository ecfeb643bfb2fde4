"""`init(include_usage=…)`: streams of chunks get the option that makes providers say their usage.

It is added to a copy of the request's members, and only where the program has not set any
`stream_options`. The program does not get the one chunk that comes of it, which has a usage and no
choices. Raw responses stay as they are, because programs may read their bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from tallystick.calls import Call

_ENDPOINTS = ("chat/completions", "completions")
_RAW = "x-stainless-raw-response"
# One object, so that a request that comes by twice is known to be ours.
_OURS = {"include_usage": True}


def ask_for_usage(call: Call, client: Any, options: Any) -> None:
    """Add the option to the stream that is about to be asked for."""
    if call.library != "openai" or call.endpoint not in _ENDPOINTS:
        return
    members = options.__dict__
    body = members.get("json_data")
    if not isinstance(body, dict) or body.get("stream") is not True:
        return
    if body.get("stream_options") is _OURS:
        call.hides_usage = True
        return
    extra = members.get("extra_json")
    is_set = "stream_options" in body or (isinstance(extra, dict) and "stream_options" in extra)
    headers, wanted = members.get("headers"), call.capture.settings.include_usage
    is_raw = isinstance(headers, dict) and any(str(name).lower() == _RAW for name in headers)
    if is_set or is_raw or wanted is False:
        return
    if wanted is not True and client._base_url.host.lower() not in wanted:
        return
    call.hides_usage = True  # first: after a fault in between, nothing was asked for
    members["json_data"] = {**body, "stream_options": _OURS}


def hide(chunks: Any) -> Any:
    """Return the chunks without the one that the program did not ask for."""
    return _async_shown(chunks) if hasattr(chunks, "__aiter__") else _shown(chunks)


def _shown(chunks: Any) -> Iterator[Any]:
    try:
        for chunk in chunks:
            if not _is_extra(chunk):
                yield chunk
    finally:
        chunks.close()


async def _async_shown(chunks: Any) -> AsyncIterator[Any]:
    try:
        async for chunk in chunks:
            if not _is_extra(chunk):
                yield chunk
    finally:
        await chunks.aclose()


def _is_extra(chunk: Any) -> bool:
    try:
        return chunk.usage is not None and chunk.choices == []
    except Exception:
        return False
