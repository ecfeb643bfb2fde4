"""The hooks of Gemini, Mistral and Cohere on classes like those of their libraries."""

from __future__ import annotations

import asyncio
import gc
import json
from types import SimpleNamespace
from typing import Any, Final

import httpx2
import polars as pl
import pytest

import tallystick
from detectors.report.account import call_files
from tallystick import capture
from tallystick.hooks.gemini import embedding_usage
from tallystick.reading import providers
from tallystick.reading.documents import id_or_none, read_document
from tallystick.reading.usage.reader import read_usage
from tests.cases import each_case
from tests.client.offline import queued
from tests.client.provider_stub import CANARY
from tests.client.providers import answers
from tests.client.providers.answers import (
    BILLED_COUNTS,
    CACHED_COUNTS,
    CACHED_USAGE,
    CHAT_COUNTS,
    TOOL_COUNTS,
    TOOL_USAGE,
)
from tests.client.providers.lookalikes import (
    ANCIENT,
    ASKED,
    CHAT,
    SENT,
    Pieces,
    answer,
    cohere,
    gemini,
    hooked,
    mistral,
    read,
    send,
)

pytestmark = pytest.mark.usefixtures("captured")


def _counts(record: dict[str, Any]) -> tuple[Any, ...]:
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens")
    return tuple(record.get(name) for name in names)


async def _all(coroutine: Any) -> list[Any]:
    return [item async for item in await coroutine]


@pytest.mark.parametrize(("usage", "counts"), [(CACHED_USAGE, CACHED_COUNTS),
                                               (TOOL_USAGE, TOOL_COUNTS)])  # fmt: skip
def test_an_answer_of_gemini_counts_once(usage: Any, counts: Any) -> None:
    library, config = gemini(answer(usage)), SimpleNamespace(max_output_tokens=64)
    library.Models()._generate_content(**ASKED, config=config)
    asyncio.run(library.AsyncModels()._generate_content(**ASKED, config={"maxOutputTokens": 64}))
    for record in queued():
        assert _counts(record) == counts
        assert (record["provider"], record["model"]) == ("google", "gemini-2.5-pro")
        assert (record["request_id"], record["service_tier"]) == ("resp-1", "flex")
        assert (record["endpoint"], record["declared_max_tokens"]) == ("generateContent", 64)
        assert CANARY not in json.dumps(record)
    assert tallystick.stats()["captured"] == 2


def test_the_ids_of_their_answers_are_known_to_be_of_one_call_each() -> None:
    """A trace with the same ID is then the same call."""
    ids = [
        ("google", answers.RESPONSE_ID),
        ("mistral", answers.CHAT_ID),
        ("mistral", answers.CHAT_ID.removeprefix("cmpl-")),
        ("cohere", answers.COHERE_ID),
    ]
    calls = pl.DataFrame(ids, schema=("provider", "request_id"), orient="row")
    assert calls.select(known=call_files._is_response_id())["known"].all()


def test_a_stream_of_gemini_counts_once_and_says_how_it_ended() -> None:
    begun, ended = answer({"promptTokenCount": 27}, None), answer(TOOL_USAGE)
    library = gemini([begun, ended])
    assert len(list(library.Models()._generate_content_stream(**ASKED))) == 2
    assert len(asyncio.run(_all(library.AsyncModels()._generate_content_stream(**ASKED)))) == 2
    left = library.Models()._generate_content_stream(**ASKED)
    next(left)
    left.close()
    whole = gemini([begun, answer(None, None)]).Models()
    list(whole._generate_content_stream(**ASKED))
    statuses = [(_counts(record), record.get("status")) for record in queued()]
    part = (27, 0, None, None)
    assert statuses == [(TOOL_COUNTS, None), (TOOL_COUNTS, None), (part, "cancelled"), (part, None)]


def test_a_stream_of_gemini_that_fails_is_an_error() -> None:
    library = gemini([answer({"promptTokenCount": 27}, None), ZeroDivisionError()])
    with pytest.raises(ZeroDivisionError):
        list(library.Models()._generate_content_stream(**ASKED))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(_all(library.AsyncModels()._generate_content_stream(**ASKED)))
    assert [record["status"] for record in queued()] == ["error", "error"]


def test_embeddings_of_gemini_count_once_in_either_layout() -> None:
    counted = SimpleNamespace(usage_metadata={"prompt_token_count": 9})
    each = [SimpleNamespace(statistics=SimpleNamespace(token_count=6.0))] * 2
    library = gemini(counted)
    library.Models().embed_content(**ASKED)
    asyncio.run(library.AsyncModels().embed_content(**ASKED))
    gemini(SimpleNamespace(embeddings=each)).Models().embed_content(**ASKED)
    assert [record["prompt_tokens"] for record in queued()] == [9, 9, 12]
    gemini(SimpleNamespace(embeddings=[*each, None])).Models().embed_content(**ASKED)
    assert tallystick.stats()["uncaptured"] == {"embeddings": 1}


def test_a_response_is_read_as_it_came_and_makes_no_record_without_usage() -> None:
    gemini(answer(None)).Models()._generate_content(**ASKED)
    gemini(answer({"totalTokenCount": 3})).Models()._generate_content(model=None)
    assert queued() == []
    assert tallystick.stats()["without_usage"] == 2
    assert tallystick.stats()["faults"] == 0
    # A response as it came is read.
    body = json.dumps(answers.content(TOOL_USAGE, "STOP"))
    raw = SimpleNamespace(sdk_http_response=SimpleNamespace(headers={}, body=body))
    gemini(raw).Models()._generate_content(**ASKED)
    (record,) = queued()
    assert (_counts(record), record["reasoning_tokens"]) == (TOOL_COUNTS, 31)


def test_the_provider_behind_a_host_is_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(providers._hosts, "llm.example.com", "openrouter")
    gemini(answer(TOOL_USAGE)).Models()._generate_content(**ASKED)
    assert queued()[0]["provider"] == "openrouter"


def test_modalities_thoughts_and_tiers_of_gemini() -> None:
    by_modality = [{"modality": SimpleNamespace(value="AUDIO"), "tokenCount": 5},
                   {"modality": "IMAGE", "tokenCount": 3}, {"modality": "TEXT"}]  # fmt: skip
    usage = {"promptTokensDetails": by_modality, "candidatesTokensDetails": by_modality,
             "trafficType": "ON_DEMAND_PRIORITY"}  # fmt: skip
    (found,) = read_usage({**usage, "promptTokenCount": 20, "candidatesTokenCount": 10})
    assert (found.parts, found.service_tier) == ({
        "audio_prompt_tokens": 5, "image_prompt_tokens": 3,
        "audio_completion_tokens": 5, "image_completion_tokens": 3,
    }, "priority")  # fmt: skip
    older = {"prompt_token_count": 10, "candidates_token_count": 4, "total_token_count": 20}
    (found,) = read_usage(older)
    assert (found.prompt, found.completion) == (10, 10)
    assert embedding_usage({"usage_metadata": {}}) == {}
    assert embedding_usage({"embeddings": None}) == {}


@pytest.mark.parametrize(("path", "label"), [
    ("models/gemini-2.5-flash:countTokens", "countTokens"),
    ("models/imagen-4.0:predict?x=1", "predict"),
    ("cachedContents", "cachedContents"),
    ("tunedModels/my-secret-1", "other"),
    ("models/text-embedding-005:predict", None),
    ("models/gemini-2.5-flash:streamGenerateContent?alt=sse", None),
])  # fmt: skip
def test_what_else_the_library_posts_is_named(path: str, label: str | None) -> None:
    _post(path)
    assert tallystick.stats()["uncaptured"] == ({} if label is None else {label: 2})


def _post(path: str) -> None:
    class BaseApiClient:
        def request(self, method: str, path: str) -> str:
            return "answer"

        async def async_request(self, method: str, path: str) -> str:
            return "answer"

    client = hooked("google.genai._api_client", BaseApiClient=BaseApiClient).BaseApiClient()
    assert client.request("post", path) == "answer"
    assert client.request("get", path) == "answer"
    assert asyncio.run(client.async_request("post", path)) == "answer"


def test_an_answer_of_mistral_counts_once() -> None:
    sdk = mistral(answers.completion())
    assert send(sdk).json()["choices"]
    request = sdk._build_request("POST", request=SimpleNamespace(body=CHAT))
    assert asyncio.run(sdk.do_request_async(None, request=request)).json()["choices"]
    for record in queued():
        assert _counts(record) == CHAT_COUNTS
        assert (record["provider"], record["endpoint"]) == ("mistral", "chat/completions")
        assert (record["model"], record["declared_max_tokens"]) == ("mistral-small-latest", 64)
        assert record["request_id"] == answers.CHAT_ID
    assert tallystick.stats()["captured"] == 2
    send(sdk, method="GET")
    send(mistral({}), None)
    assert queued() == []


@pytest.mark.parametrize(("library", "path", "body"), [
    ("mistral", "conversations/conv_1", {}),
    ("mistral", "conversations", {"stream": True}),
    ("google", "interactions", {}),
    ("google", "interactions", {"stream": True}),
])  # fmt: skip
def test_conversations_count_with_their_tools_and_thoughts(
    library: str, path: str, body: Any
) -> None:
    name = "google.genai._gaos.basesdk" if library == "google" else "mistralai.client.basesdk"
    whole, events, _ = answers.reply(f"/{library}/{path}", body) or (None, [], "")
    sdk = mistral(whole or events, name, f"https://gateway.example/v1/{path}")
    for _ in range(2):  # with and without the model in the request
        response = send(sdk, {"model": "m"} if body else None)
        b"".join(response.iter_bytes())
    is_google = library == "google"
    expected = answers.INTERACTION_COUNTS if is_google else answers.CONNECTOR_COUNTS
    for record in queued():
        assert (_counts(record), record["provider"]) == (expected, library)
        assert record["endpoint"] == path.partition("/")[0]
        assert record.get("reasoning_tokens") == (22 if is_google else None)
        assert record.get("web_searches") == (None if is_google else 1)
    assert tallystick.stats()["captured"] == 2


def test_a_stream_of_mistral_counts_once_wherever_it_is_cut() -> None:
    sdk = mistral(answers.chunks())
    assert b"canary" in b"".join(send(sdk, stream=True).iter_bytes())
    assert b"canary" in asyncio.run(read(sdk))
    left = send(sdk, stream=True)
    next(left.iter_bytes())
    del left
    gc.collect()
    assert [_counts(record) for record in queued()] == [CHAT_COUNTS] * 2
    assert tallystick.stats()["uncaptured"] == {"chat/completions": 1}


def test_a_stream_that_is_read_no_further_than_its_end_counts() -> None:
    """Libraries stop at the last event, with the connection still open."""
    usage = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(answers.completion()).encode()
    sdk = mistral(lambda request: httpx2.Response(200, stream=Pieces([usage, b"more"]), headers={
        "content-type": "text/event-stream"}))  # fmt: skip
    items = send(sdk, stream=True).iter_bytes()
    next(items)
    next(items)
    assert len(queued()) == 1


def test_a_stream_that_fails_is_an_error_with_the_counts_so_far() -> None:
    usage = b"data: %s\n\n" % json.dumps(answers.completion()).encode()
    body = Pieces([usage, b"data: {", ZeroDivisionError()])
    sdk = mistral(lambda request: httpx2.Response(200, stream=body, headers={
        "content-type": "text/event-stream; charset=utf-8"}))  # fmt: skip
    with pytest.raises(ZeroDivisionError):
        list(send(sdk, stream=True).iter_bytes())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(read(sdk))
    assert [record["status"] for record in queued()] == ["error", "error"]
    assert tallystick.stats()["faults"] == 0


@each_case(("module", "host", "provider"), [
    ("mistralai.azure.client.basesdk", "x.eastus.models.example", "azure"),
    ("mistralai_gcp.basesdk", "us-central1-aiplatform.googleapis.com", "google"),
    ("mistralai.client.basesdk", "bedrock-runtime.us-east-1.amazonaws.com", "aws"),
    ("google.genai._gaos.basesdk", "generativelanguage.googleapis.com", "google"),
])  # fmt: skip
def test_the_provider_is_that_of_the_library_or_its_host(
    module: str, host: str, provider: str
) -> None:
    sdk = mistral(answers.completion(), module, f"https://{host}/v1/projects/p/models/m:rawPredict")
    send(sdk)
    (record,) = queued()
    assert (record["provider"], record["endpoint"]) == (provider, "chat/completions")


@each_case("document", [
    {"usage": "much"}, {"usage": {"prompt_tokens": 3}}, [1], {"usage": None, "outputs": [{}]},
    {"usage": {"prompt_tokens": "3", "total_input_tokens": None}},
])  # fmt: skip
def test_an_odd_answer_makes_no_record_and_no_fault(document: Any) -> None:
    """Also of the other library that reads JSON."""
    send(mistral(lambda request: httpx2.Response(200, json=document)))
    cohere(lambda request: httpx2.Response(200, json=document)).request(**SENT).json()
    assert queued() == []
    assert tallystick.stats()["faults"] == 0


def test_an_answer_of_cohere_counts_what_is_billed_once() -> None:
    client = cohere(answers.second())
    response = client.request(**SENT)
    assert response.json() == response.json() == answers.second()
    assert asyncio.run(client.asynchronous.request(**SENT)).json()
    assert client.request(*ANCIENT, json=SENT["json"]).json()
    for record in queued():
        assert _counts(record) == BILLED_COUNTS
        assert (record["provider"], record["model"]) == ("cohere", "command-a-03-2025")
        assert (record["endpoint"], record["request_id"]) == ("chat", answers.COHERE_ID)
        assert record["declared_max_tokens"] == 64
    assert tallystick.stats()["captured"] == 3
    client.request(**{**SENT, "method": "GET"}).json()
    failed = cohere(lambda request: httpx2.Response(500, json=answers.second()))
    assert failed.request(**SENT).json()
    assert queued() == []


@each_case(("usage", "counts"), [
    ({"tokens": {"input_tokens": 71, "output_tokens": 4}}, (71, 4, None, None)),
    ({"billed_units": {"input_tokens": 71.0, "output_tokens": 4.0}, "cached_tokens": 64},
     (71, 4, 64, None)),
    ({"billed_units": {"input_tokens": 5, "output_tokens": 4}, "cached_tokens": 64},
     (5, 4, None, None)),
])  # fmt: skip
def test_cached_tokens_of_cohere_are_part_of_what_is_billed(usage: Any, counts: Any) -> None:
    cohere({"id": "no ID: it has spaces", "usage": usage}).request(**SENT).json()
    (record,) = queued()
    assert _counts(record) == counts
    assert "request_id" not in record


def test_a_stream_of_cohere_counts_once() -> None:
    client = cohere(answers.document("second_events"))
    with client.stream(**SENT) as response:
        assert len([line for line in response.iter_lines() if line]) == 8

    async def ask() -> int:
        async with client.asynchronous.stream(**SENT) as response:
            return len([line async for line in response.aiter_lines() if line])

    assert asyncio.run(ask()) == 8
    with cohere(None).stream(**SENT) as response:
        response.read()
    assert [_counts(record) for record in queued()] == [BILLED_COUNTS] * 2


_BROKEN: Final = (
    *("gemini.begin_elsewhere", "gemini._take", "gemini.members_of", "gemini._HOOKED"),
    *("mistral.begin_elsewhere", "mistral.watch_events", "mistral._take"),
    *("cohere.begin_elsewhere", "cohere.watch_json", "cohere.watch_events", "cohere.take"),
    *("responses.json", "mistral.arrived"),
)


def _fail(*args: Any, **kwargs: Any) -> Any:
    raise ZeroDivisionError


def _ask_all() -> None:
    library = gemini([answer(TOOL_USAGE)])
    assert len(list(library.Models()._generate_content_stream(**ASKED))) == 1
    assert len(asyncio.run(_all(library.AsyncModels()._generate_content_stream(**ASKED)))) == 1
    assert gemini(answer(TOOL_USAGE)).Models()._generate_content(**ASKED).response_id
    _post("models/gemini-2.5-flash:embedContent")
    assert send(mistral(answers.completion())).json()
    assert list(send(mistral(answers.chunks()), stream=True).iter_bytes())
    client = cohere(answers.second())
    assert client.request(**SENT).json()
    with cohere(answers.document("second_events")).stream(**SENT) as response:
        assert response.read()


@pytest.mark.parametrize("broken", [*_BROKEN, "Call._put"])
def test_a_part_that_fails_costs_records_and_no_call(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"tallystick.hooks.{broken}" if broken != "Call._put" else "tallystick.calls.Call._put"
    monkeypatch.setattr(path, _fail if "_HOOKED" not in broken else None)
    _ask_all()
    assert tallystick.stats()["faults"] > 0
    monkeypatch.undo()


def test_nothing_is_done_while_capture_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "active", None)
    _ask_all()
    monkeypatch.undo()
    assert queued() == []


def test_a_request_that_takes_no_members_is_sent() -> None:
    class BaseSDK:
        def _build_request(self, request: Any) -> object:
            return object()

    sdk = hooked("mistralai.basesdk", BaseSDK=BaseSDK).BaseSDK()
    assert sdk._build_request(request=CHAT)
    assert tallystick.stats()["faults"] == 1


def test_a_library_without_what_is_hooked_stays_as_it_is() -> None:
    hooked("mistralai.basesdk", BaseSDK=object)
    hooked("cohere.core.http_client")


def test_a_long_body_is_read_at_its_ends() -> None:
    usage = {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 1}}
    long = {"id": "e-1", "data": [0.015625] * 20_000, "model": "mistral-embed", "usage": usage}
    found = read_document(json.dumps(long).encode())
    assert found == {"id": "e-1", "model": "mistral-embed", "usage": usage}
    assert read_document(b"[]") == {}
    assert id_or_none("cmpl-1:a.b_c") == "cmpl-1:a.b_c"
    assert [id_or_none(value) for value in ("a b", "", 7, None, "x" * 129)] == [None] * 5
