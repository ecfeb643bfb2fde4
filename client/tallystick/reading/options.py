"""Read the endpoint, the response ID and the answer limit from a request's options."""

from __future__ import annotations

from typing import Any, Optional

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_LONG_ENDPOINTS = frozenset(
    {
        "chat/completions",
        "responses/compact",
        "images/generations",
        "images/edits",
        "images/variations",
        "audio/transcriptions",
        "audio/translations",
    }
)
_RESPONSES = "responses"
_NO_IDS = frozenset({"compact", "input_tokens"})
_LONGEST_WORD = 40
_REMEMBERED = 256
_LONGEST_REMEMBERED = 500


# The label of an endpoint, and the id of the response that a URL names, if it names one.
Route = tuple[Optional[str], Optional[str]]

_routes: dict[str, Route] = {}


def route_of(url: object) -> Route:
    text = url if type(url) is str else str(url)
    route = _routes.get(text)
    if route is None:
        path = text.partition("?")[0]
        if "://" in path:
            path = path.partition("://")[2].partition("/")[2]
        steps, route = [step for step in path.split("/") if step], (None, None)
        if steps:
            response_id = None  # of `responses/<id>` and `responses/<id>/cancel`
            ends = steps[:-1] if steps[-1] == "cancel" else steps
            if len(ends) > 1 and ends[-2] == _RESPONSES and ends[-1] not in _NO_IDS:
                response_id = ends[-1]
            route = (_RESPONSES if response_id else _endpoint(steps), response_id)
        # Neither what may hold a secret nor what will hardly be asked for again.
        if (
            route[1] is None
            and "?" not in text
            and "@" not in text
            and len(text) <= _LONGEST_REMEMBERED
        ):
            if len(_routes) >= _REMEMBERED:
                _routes.clear()
            _routes[text] = route
    return route


def _endpoint(steps: list[str]) -> str | None:
    """Return the words at the end of a path, never a part that may be an ID or a name."""
    last = steps[-1]
    if "/".join(steps[-2:]) in _LONG_ENDPOINTS:
        return "/".join(steps[-2:])
    if last.endswith("awPredict") or last.startswith("invoke"):
        return "messages"  # the same endpoint, as Vertex and Bedrock address it
    is_word = len(last) <= _LONGEST_WORD and last.replace("_", "").isalpha() and last.islower()
    return last if is_word else None


def declared_limit(members: dict[str, Any]) -> int | None:
    for name in _LIMITS:
        value = members.get(name)
        if type(value) is int and value >= 0:
            return value
    return None
