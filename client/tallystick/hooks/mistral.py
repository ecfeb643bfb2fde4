"""Calls of Mistral's library, and of Google's Interactions API, which the same generator made.

Both send every request with one method, and read the response's body themselves.
"""

from __future__ import annotations

from typing import Any

from tallystick.calls import Call, begin_elsewhere
from tallystick.hooks.responses import arrived, watch_events
from tallystick.hooks.wrapping import around
from tallystick.reading.documents import id_or_none, read_document
from tallystick.reading.options import route_of
from tallystick.reading.usage.reader import members_of

_ASKED = "_tallystick_asked"
_SIGN = b'"usage"'
_WITH_IDS = ("conversations", "interactions")


def _keep_asked(kwargs: dict[str, Any], request: Any) -> None:
    """Keep the request's members beside the request, whose body is serialized."""
    request.__dict__[_ASKED] = kwargs.get("request")


def _begin(sdk: Any, args: Any, kwargs: Any) -> Call | None:
    request = kwargs["request"] if "request" in kwargs else args[1]
    if request.method != "POST":
        return None
    asked = members_of(request.__dict__.pop(_ASKED, None))
    # The provider by the module of the library; its host may name another.
    library, module = "mistral", type(sdk).__module__
    if "azure" in module:
        library = "azure"
    elif module.startswith(("google.", "mistralai.gcp", "mistralai_gcp")):
        library = "google"
    if "model" not in asked:  # some endpoints have the members of the body in one of theirs
        found = map(members_of, asked.values())
        asked = next((members for members in found if "model" in members), asked)
    path = request.url.path
    label = next((name for name in _WITH_IDS if f"/{name}" in path), None) or route_of(path)[0]
    # At Vertex AI, chats are called as other providers' messages are.
    label = "chat/completions" if label == "messages" else label
    return begin_elsewhere(library, library, label, asked)


def _end_or_watch(call: Call, response: Any) -> None:
    if not arrived(call, response):
        return
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        watch_events(call, response, _take, _SIGN)
        return
    content = response.__dict__.get("_content")
    if content is not None:
        _take(call, read_document(content))
        call.end()


def _take(call: Call, document: Any) -> None:
    """Take the usage of a response, or of an event that has it, alone or with an interaction."""
    members = members_of(document)
    members = members_of(members.get("interaction")) or members
    usage = members_of(members.get("usage"))
    if not usage:
        return
    call.request_id = id_or_none(members.get("id")) or call.request_id
    outputs = members.get("outputs")  # of a conversation, which says its model of each
    of_outputs = map(members_of, outputs if isinstance(outputs, list) else ())
    named = (output["model"] for output in of_outputs if "model" in output)
    model = members.get("model") or next(named, None)
    call.take(usage, model, members.get("service_tier"), beside=members)


_build = around(lambda sdk, args, kwargs: kwargs, _keep_asked)
_send, _send_async = (around(_begin, _end_or_watch, is_async=each) for each in (False, True))
POINTS = (
    ("BaseSDK", ("build_request", "_build_request"), _build),
    ("BaseSDK", ("_build_request_async",), _build),
    ("BaseSDK", ("do_request",), _send),
    ("BaseSDK", ("do_request_async",), _send_async),
    ("AsyncBaseSDK", ("_build_request_async",), _build),
    ("AsyncBaseSDK", ("do_request_async",), _send_async),
)
