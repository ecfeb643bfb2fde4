"""The same recorded exchange through each door: the client, `audit`, `scrub`, a span."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import httpx2

import tallystick
from detectors.contract import UsageRecord
from detectors.errors import ContractError, UnreadableLogError
from detectors.formats import read_chunks, records_of
from detectors.scrub.scrubber import Scrubber
from tallystick.calls import begin_elsewhere
from tallystick.hooks import litellm, mistral
from tests.client.collector import refusing_dsn
from tests.client.offline import capturing, queued, say, stream
from tests.lazily import anthropic, openai
from tests.service.otlp.requests import as_protobuf, document, span
from tests.service.otlp.requests import read as read_spans
from tests.service.otlp.requests import records_of as sent

Case = dict[str, Any]
CANARY: Final = "CANARY"
TS: Final = 1_782_000_000
COMPARED: Final = (
    *("provider", "model", "prompt_tokens", "completion_tokens"),
    *("cached_tokens", "cache_write_tokens"),
    *("cache_write_1h_tokens", "reasoning_tokens", "audio_prompt_tokens"),
    *("audio_completion_tokens", "image_prompt_tokens", "image_completion_tokens", "web_searches"),
    *("service_tier", "region", "units", "reported_usd"),
)
_BESIDE: Final = ("usage", "usageMetadata", "modelVersion", "tool_usage", "svg_usage", "type")
_ANSWERS: Final = ("object", "service_tier", "serviceTier")


@functools.cache
def corpus() -> list[Case]:
    file = Path(__file__).with_name("corpus.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def compared(record: UsageRecord | Mapping[str, Any]) -> dict[str, Any]:
    """Return what a bill depends on; what is absent and what is 0 are the same."""
    read = record.get if isinstance(record, Mapping) else functools.partial(_get, record)
    found = {name: read(name) for name in COMPARED}
    counts = {"prompt_tokens", "completion_tokens"}
    return {name: value for name, value in found.items() if value or name in counts}


def _get(record: UsageRecord, name: str) -> Any:
    return getattr(record, name, None)


def expected(case: Case) -> list[dict[str, Any]]:
    given = {"provider": case["provider"]}
    return _in_order([compared({**given, **record}) for record in case["records"]])


def _in_order(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: -record["prompt_tokens"])


# --- the client


def through_client(case: Case) -> list[dict[str, Any]]:
    """Make the call with the provider's own library, or as LiteLLM makes it."""
    with capturing(refusing_dsn()):
        _CALLS.get(case["library"], _through_litellm)(case)
        unknown = dict(tallystick.stats().get("unknown_fields", {}))
        records = queued()
    case["said"] = unknown
    return [compared(record) for record in records]


def _handler(case: Case) -> Callable[[httpx2.Request], httpx2.Response]:
    answer = {"id": "x_1", "created": TS, **case["answer"]}

    def handle(request: httpx2.Request) -> httpx2.Response:
        if "events" in case:
            return stream([(each.get("type", ""), each) for each in case["events"]])
        return say(answer)

    return handle


def _through_openai(case: Case) -> None:
    http = httpx2.Client(transport=httpx2.MockTransport(_handler(case)))
    url = f"https://{case.get('host', 'api.openai.com')}/v1"
    client = openai.OpenAI(api_key="k", base_url=url, max_retries=0, http_client=http)
    model, is_stream = case["model"], "events" in case
    kind = case["endpoint"]
    if kind == "responses":
        client.responses.create(model=model, input="x")
    elif kind == "embeddings":
        client.embeddings.create(model=model, input="x", encoding_format="float")
    elif kind == "images/generations":
        client.images.generate(model=model, prompt="x")
    elif kind == "audio/transcriptions":
        client.audio.transcriptions.create(model=model, file=("a.wav", b"x"))
    elif is_stream:
        list(client.chat.completions.create(model=model, messages=[], stream=True))
    else:
        client.chat.completions.create(model=model, messages=[])


def _through_anthropic(case: Case) -> None:
    http = httpx2.Client(transport=httpx2.MockTransport(_handler(case)))
    client = anthropic.Anthropic(api_key="k", max_retries=0, http_client=http)
    asked: dict[str, Any] = {"model": case["model"], "max_tokens": 9, "messages": []}
    if "events" in case:
        list(client.beta.messages.create(**asked, stream=True))
    else:
        client.beta.messages.create(**asked)


def _through_mistral(case: Case) -> None:
    call = begin_elsewhere(
        case["library"], case["provider"], case["endpoint"], {"model": case["model"]}
    )
    assert call is not None
    mistral._take(call, case["answer"])
    call.end()


_URLS: Final = {
    "generateContent": "https://generativelanguage.googleapis.com/v1/models/m:generateContent",
    "converse": "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse",
    "chat": "https://api.cohere.com/v2/chat",
}


def _through_litellm(case: Case) -> None:
    asked = {"model": case["model"]}
    call = litellm.begin_at(_URLS[case["endpoint"]], asked, case["provider"])
    assert call is not None
    litellm.take(call, case["answer"])
    call.end()


_CALLS: Final[dict[str, Callable[[Case], None]]] = {
    "openai": _through_openai,
    "anthropic": _through_anthropic,
    "mistral": _through_mistral,
}


# --- files


def line_of(case: Case) -> bytes:
    """Return a line of counts, as a log without text has it."""
    answer = case["answer"]
    kept = {name: answer[name] for name in (*_BESIDE, *_ANSWERS) if name in answer}
    return json.dumps(
        {"ts": TS, "provider": case["provider"], "model": case["model"], **kept}
    ).encode()


def raw_line_of(case: Case) -> bytes:
    """Return a line of a log with the request and its response."""
    asked = {"model": case["model"], "messages": [{"role": "user", "content": CANARY}]}
    outer = {"ts": TS, "provider": case["provider"], "request": asked, "response": case["answer"]}
    return json.dumps(outer).encode()


def records_in(text: bytes) -> Iterator[UsageRecord]:
    for chunk in read_chunks(BytesIO(text)):
        yield from records_of(chunk.columns)


def through_audit(case: Case) -> list[dict[str, Any]]:
    return [compared(record) for record in records_in(line_of(case))]


def scrubbed(text: bytes) -> bytes:
    return b"".join(Scrubber().read(BytesIO(text)))


def through_scrub(case: Case) -> list[dict[str, Any]]:
    return [compared(record) for record in records_in(scrubbed(raw_line_of(case)))]


# --- spans


def attributes_of(case: Case) -> dict[str, Any]:
    """Return the attributes of a span with a copy of the usage, as Logfire and LiteLLM write it."""
    answer = case["answer"]
    tier = answer.get("service_tier") or (answer.get("serviceTier") or {}).get("type")
    return {
        "gen_ai.provider.name": case["provider"],
        "gen_ai.response.model": case["model"],
        "gen_ai.usage.raw": json.dumps(answer.get("usage") or answer.get("usageMetadata")),
        **({"gen_ai.response.service_tier": tier} if tier else {}),
    }


def through_otlp(case: Case) -> list[dict[str, Any]]:
    calls = read_spans(as_protobuf(document(span(attributes_of(case)))))
    return [compared(record) for record in sent(calls)]


def _fits_a_span(case: Case) -> bool:
    """Check for usage in one object: attributes have nothing that stands beside it."""
    answer = case["answer"]
    return ("usage" in answer or "usageMetadata" in answer) and "tool_usage" not in answer


DOORS: Final[dict[str, Callable[[Case], list[dict[str, Any]]]]] = {
    "client": through_client,
    "audit": through_audit,
    "scrub": through_scrub,
    "otlp": through_otlp,
}


def doors_of(case: Case) -> list[str]:
    named: list[str] = case.get("doors") or [*DOORS]
    if _is_live(case):
        named = [name for name in named if name != "client"]
    # What a line of counts can't say, a span can't either.
    is_said = "otlp" in named or "audit" in named
    if is_said and _fits_a_span(case):
        return list(dict.fromkeys((*named, "otlp")))
    return [name for name in named if name != "otlp"]


def _is_live(case: Case) -> bool:
    """Check for calls over a socket, which the client does not see."""
    return str(case["endpoint"]) == "realtime"


def read(case: Case, door: str) -> list[dict[str, Any]] | str:
    """Return what a door makes of a case, or why it refuses it."""
    try:
        return _in_order(DOORS[door](case))
    except (ContractError, UnreadableLogError) as error:
        return f"refused: {error}"
