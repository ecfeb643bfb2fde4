"""Calls that LiteLLM makes over its own HTTP client, rather than with a model provider's library.

Whatever LiteLLM sends in this way goes through two methods. Calls that it makes with `openai` don't
and answers of its cache are not sent at all, so neither counts here. Each attempt of a router or a
retry that is answered is billed, and counts.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

from tallystick.calls import Call, begin_elsewhere
from tallystick.hooks import bedrock, cohere, gemini
from tallystick.hooks.responses import watch_events, watch_pieces
from tallystick.hooks.wrapping import around
from tallystick.reading.documents import read_document
from tallystick.reading.providers import provider_at
from tallystick.reading.usage.reader import members_of

SIGN = b'"usage'
_FRAMES = "application/vnd.amazon.eventstream"
# How URLs of models end, and the label of that endpoint. Any other URL is none of our business.
_ENDPOINTS = {
    "/chat/completions": "chat/completions",
    "/completions": "completions",
    "/responses": "responses",
    "/embeddings": "embeddings",
    "/messages": "messages",
    ":rawPredict": "messages",
    ":streamRawPredict": "messages",
    ":generateContent": "generateContent",
    ":streamGenerateContent": "generateContent",
    "/converse": "converse",
    "/converse-stream": "converse",
    "/invoke": "invoke",
    "/invoke-with-response-stream": "invoke",
    "/chat": "chat",
}
# The provider of an endpoint, where nothing else says it.
_OWNERS = {"messages": "anthropic", "generateContent": "google", "converse": "aws", "invoke": "aws"}
# LiteLLM's names of providers that have another here.
_PROVIDERS = {
    "azure_ai": "azure",
    "bedrock": "aws",
    "cohere_chat": "cohere",
    "fireworks_ai": "fireworks",
    "gemini": "google",
    "moonshot": "moonshotai",
    "together_ai": "together",
    "vertex_ai": "google",
    "vertex_ai_beta": "google",
    "xai": "x-ai",
}
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")
IDS = ("x-request-id", "request-id", "x-amzn-requestid")


def _begin(handler: Any, args: Any, kwargs: Any) -> Call | None:
    url = args[0] if args else kwargs["url"]
    data = kwargs.get("json") or kwargs.get("data") or kwargs.get("content")
    body = data or (args[1] if len(args) > 1 else None)
    logged = members_of(getattr(kwargs.get("logging_obj"), "model_call_details", None))
    name = logged.get("custom_llm_provider")  # that LiteLLM has chosen
    provider = _PROVIDERS.get(name, name) if isinstance(name, str) else None
    return begin_at(str(url), body, provider)


def begin_at(address: str, body: Any, named: str | None) -> Call | None:
    """Return the call that a request is, or None if the URL is not that of a model.

    `named` is the provider at a host that is no provider's own.
    """
    url = urlsplit(address)
    ends = (_ENDPOINTS[ending] for ending in _ENDPOINTS if url.path.endswith(ending))
    endpoint = next(ends, None)
    if endpoint is None:
        return None
    if isinstance(body, (str, bytes)):
        try:
            body = json.loads(body)
        except ValueError:
            body = None
    members = members_of(body)
    options = members_of(members.get("generationConfig") or members.get("inferenceConfig"))
    asked = {  # under OpenAI's names
        "max_tokens": options.get("maxOutputTokens", options.get("maxTokens")),
        "system": members.get("systemInstruction") or members.get("system_instruction"),
        "messages": members.get("contents"),
        **members,
    }
    for before, end in (("/models/", ":"), ("/model/", "/")):
        if before in url.path and "model" not in members:
            asked["model"] = unquote(url.path.rpartition(before)[2].rpartition(end)[0])
    host = (url.hostname or "").lower()
    provider = provider_at(host, named or _OWNERS.get(endpoint, "openai"))
    is_claude = endpoint == "messages" or "anthropic." in str(asked.get("model"))
    library = "anthropic" if is_claude and endpoint != "converse" else "litellm"
    return begin_elsewhere(library, provider, endpoint, asked)


def _end_or_watch(call: Call, response: Any) -> None:
    headers = response.headers
    call.request_id = next((headers[name] for name in IDS if name in headers), None)
    content = response.__dict__.get("_content")
    if content is not None:
        take(call, read_document(content))
        if call.endpoint == "invoke":
            bedrock.take_headers(call, headers)
        call.is_whole()
        call.end()
    elif headers.get("content-type", "").startswith(_FRAMES):
        watch_pieces(response, bedrock.Frames(call))
    else:
        watch_events(call, response, take, SIGN)


def take(call: Call, document: Any) -> None:
    """Take the usage of a whole response or of an event, in the format of any provider."""
    members = members_of(document)
    if "usageMetadata" in members:
        gemini.see(call, members)
        return
    usage = members_of(members.get("usage") or members.get("meta"))
    if "inputTokens" in usage:
        bedrock.take_document(call, members)
    elif call.endpoint == "chat":
        cohere.take(call, members)
    else:
        call.see(members)
        is_last = members.get("type") in _LAST_EVENTS
        if is_last or members_of(members.get("delta")).get("stop_reason"):
            call.end()  # LiteLLM reads no further


POINTS = (
    ("HTTPHandler", ("post",), around(_begin, _end_or_watch)),
    ("AsyncHTTPHandler", ("post",), around(_begin, _end_or_watch, is_async=True)),
)
