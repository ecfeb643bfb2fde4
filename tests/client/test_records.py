"""Records from requests and counts: `record()`, routes, sellers, background calls, hashes."""

import hashlib
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from genai_prices.data_snapshot import get_snapshot

import tallystick
from tallystick.calls import begin
from tallystick.capture import Background
from tallystick.reading import options, providers
from tallystick.reading.prompts import hash_prefixes
from tests.cases import data_of, each_case
from tests.client import offline, provider_stub
from tests.client.offline import capturing, queued
from tests.client.styles import ASKED
from tests.client.test_record_v2 import WHOLE
from tests.lazily import openai


@pytest.mark.usefixtures("captured")
def test_a_time_without_an_offset_is_utc() -> None:
    tallystick.record(
        model="m", prompt_tokens=1, completion_tokens=1, ts=datetime(2026, 10, 5, tzinfo=UTC)
    )
    naive = datetime(2026, 10, 5)  # noqa: DTZ001 - it is what is tested
    tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, ts=naive)
    assert [record["ts"] for record in queued()] == ["2026-10-05T00:00:00.000000Z"] * 2


TABLES = data_of(__file__)
BAD: list[dict[str, Any]] = [
    *TABLES["bad"],
    {"ts": datetime(1999, 1, 1, tzinfo=UTC)},
    {"ts": datetime(2100, 1, 1, tzinfo=UTC)},
]


@pytest.mark.usefixtures("captured")
@each_case("bad", BAD)
def test_invalid_records_are_dropped_without_an_error(bad: dict[str, Any]) -> None:
    assert not tallystick.record(**{**WHOLE, **bad})
    assert queued() == []


@each_case(("url", "endpoint", "response_id"), [*TABLES["urls"], (SimpleNamespace(), None, None)])
def test_a_url_gives_the_endpoint_and_never_a_name(
    url: object, endpoint: str | None, response_id: str | None
) -> None:
    assert options.route_of(url) == (endpoint, response_id)


def test_memory_of_urls_is_bounded() -> None:
    for number in range(1_000):
        options.route_of(f"/x{number}/chat/completions")
    assert len(options._routes) <= 256


@each_case(("host", "label"), TABLES["hosts"])
def test_the_host_names_the_provider(host: object, label: str) -> None:
    client = SimpleNamespace(_base_url=SimpleNamespace(host=host))
    assert providers.provider_of(client, "openai") == label


def test_a_program_names_the_provider_behind_its_gateway() -> None:
    named = {"LLM.example.com": "azure", "api.openai.com": "groq", "x.example.com": "Not a label"}
    client = SimpleNamespace(_base_url=SimpleNamespace(host="llm.example.com"))
    with capturing("http://ik_test@127.0.0.1:9", providers=named):
        assert providers.provider_of(client, "openai") == "azure"
    with capturing("http://ik_test@127.0.0.1:9"):
        fresh = SimpleNamespace(_base_url=SimpleNamespace(host="llm.example.com"))
        assert providers.provider_of(fresh, "openai") == "openai"


def test_the_client_and_its_class_name_the_provider() -> None:
    client = openai.OpenAI(api_key="k")
    assert providers.provider_of(client, "openai") == "openai"
    client.base_url = "https://api.groq.com/openai/v1"
    for _ in range(2):
        assert providers.provider_of(client, "openai") == "groq"
    assert providers.provider_of(client.copy(base_url="https://api.x.ai/v1"), "openai") == "x-ai"
    # Every provider of the client has prices.
    known = {provider.id for provider in get_snapshot().providers}
    assert {label for _, label in providers._CLASS_WORDS + providers._HOST_ENDINGS} <= known


def test_the_class_names_the_provider() -> None:
    for name, label in (("AzureOpenAI", "azure"), ("AsyncAnthropicBedrock", "aws")):
        client = type("Mine", (type(name, (), {}),), {})()
        assert providers.provider_of(client, "openai") == label


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize(
    ("asked", "billed"),
    [
        ("us.anthropic.claude-sonnet-4-6-v1:0", "us.anthropic.claude-sonnet-4-6-v1:0"),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/x", "claude-4"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-v1:0",
            "us.anthropic.claude-v1:0",
        ),
        (None, "claude-4"),
    ],
)
def test_the_requested_model_decides_the_price_of_bedrock_calls(
    asked: str | None, billed: str
) -> None:
    client = type("AnthropicBedrock", (), {})()
    call = begin(
        "anthropic",
        client,
        SimpleNamespace(method="post", url="/v1/messages", json_data={"model": asked}),
    )
    assert call is not None
    call.see({"model": "claude-4", "usage": {"input_tokens": 1, "output_tokens": 1}})
    call.end()
    (record,) = queued()
    assert (record["model"], record["provider"]) == (billed, "aws")


@pytest.mark.usefixtures("captured")
def test_a_background_response_counts_once_however_often_it_is_asked_for() -> None:
    client = offline.openai_client.__wrapped__(_poll)
    client.responses.create(**ASKED, background=True)
    for _ in range(5):
        client.responses.retrieve("resp_bg1")
    client.responses.cancel("resp_bg1")
    assert len(queued()) == 1
    assert tallystick.stats()["without_usage"] == 0


@pytest.mark.usefixtures("captured")
def test_an_old_response_does_not_count_while_another_is_pending() -> None:
    client = offline.openai_client.__wrapped__(_poll)
    client.responses.create(**ASKED, background=True)
    client.responses.retrieve("resp_of_yesterday")
    assert queued() == []
    client.responses.retrieve("resp_bg1")
    assert len(queued()) == 1


def _left(request: Any) -> Any:
    if request.method == "POST" and request.url.path.endswith("/responses"):
        queued_one = provider_stub.response("resp_bg1", "queued")
        kinds = ("response.created", "response.in_progress")
        return offline.stream([(kind, {"type": kind, "response": queued_one}) for kind in kinds])
    name = request.url.path.removesuffix("/cancel").rpartition("/")[2]
    status = "cancelled" if request.url.path.endswith("/cancel") else "completed"
    return offline.say({**provider_stub.response(name, "completed"), "status": status})


@pytest.mark.usefixtures("captured")
def test_a_background_stream_that_is_left_is_known_by_the_id_of_its_first_event() -> None:
    client = offline.openai_client.__wrapped__(_left)
    for _ in range(2):
        stream = client.responses.create(**ASKED, background=True, stream=True)
        assert next(stream).response.id == "resp_bg1"
        stream.close()
    client.responses.retrieve("resp_of_yesterday")
    assert queued() == []
    client.responses.cancel("resp_bg1")
    client.responses.retrieve("resp_bg1")
    (record,) = queued()
    assert (record["request_id"], record["status"]) == ("resp_bg1", "cancelled")
    assert tallystick.stats()["without_usage"] == 0


def _poll(request: Any) -> Any:
    if request.method == "POST" and request.url.path.endswith("/responses"):
        return offline.say(provider_stub.response("resp_bg1", "queued"))
    return offline.say(provider_stub.response("resp_bg1", "completed"))


@pytest.mark.usefixtures("captured")
def test_a_response_that_another_process_asked_for_counts_where_it_is_waited_for() -> None:
    answers = iter(["in_progress", "in_progress", "completed", "completed"])
    client = offline.openai_client.__wrapped__(
        lambda request: offline.say(provider_stub.response("resp_7", next(answers)))
    )
    for _ in range(4):
        client.responses.retrieve("resp_7")
    assert len(queued()) == 1


@pytest.mark.usefixtures("captured")
def test_other_requests_than_posts_count_nothing() -> None:
    client = offline.openai_client()
    client.get("/chat/completions/1", cast_to=object)
    client.responses.retrieve("resp_1")
    assert queued() == []


def test_memory_of_responses_is_bounded() -> None:
    background = Background()
    for number in range(5_000):
        background.is_new(f"resp_{number}", has_usage=False)
        background.is_new(f"resp_{number}", has_usage=True)
        background.is_new(f"pending_{number}", has_usage=False)
    assert len(background._pending) <= 1_024
    assert len(background._counted) <= 1_024


HASHED: list[tuple[dict[str, Any], str | None]] = [
    *TABLES["hashed"],
    ({"messages": [SimpleNamespace(content="a")]}, "a"),
    ({"messages": [{"content": "x" * 5_000}, {"content": "y"}]}, "x" * 4_096),
    ({"messages": [{"content": "x" * 4_095}, {"content": "yz"}]}, "x" * 4_095 + "\n"),
    ({"messages": [{"content": "é" * 4_096 + "x"}]}, "é" * 4_096),
    ({"input": iter(["a"])}, None),
]


@each_case(("body", "text"), HASHED)
def test_the_hash_is_of_the_canonical_text(body: dict[str, Any], text: str | None) -> None:
    expected = None if text is None else hashlib.sha256(text.encode()).hexdigest()
    assert hash_prefixes(body)[0] == expected


def test_a_body_that_contains_itself_is_harmless() -> None:
    parts: list[Any] = []
    parts.append(parts)
    assert hash_prefixes({"messages": parts})[0] is None
    assert hash_prefixes({"messages": [{"content": "\ud800"}]})[0]


AUDIO: Any = {"text_tokens": 100, "audio_tokens": 13_800}
SOUND: Any = {"type": "tokens", "input_tokens": 13_900, "input_token_details": AUDIO,
              "output_tokens": 450, "total_tokens": 14_350}  # fmt: skip
IMAGES: Any = {"input_tokens": 600, "output_tokens": 4_100, "total_tokens": 4_700,
               "input_tokens_details": {"text_tokens": 60, "image_tokens": 540},
               "output_tokens_details": {"text_tokens": 0, "image_tokens": 4_100}}  # fmt: skip


def _hear_or_draw(request: Any) -> Any:
    if "transcriptions" in request.url.path:
        heard = {"type": "transcript.text.delta", "delta": "canary-7f3a"}
        done = {"type": "transcript.text.done", "text": "canary-7f3a", "usage": SOUND}
        return offline.stream([(heard["type"], heard), (str(done["type"]), done)])
    part: dict[str, Any] = {"type": "image_generation.partial_image", "b64_json": "canary-7f3a"}
    drawn: dict[str, Any] = {**part, "type": "image_generation.completed", "usage": IMAGES}
    return offline.stream([(each["type"], each) for each in (part, drawn)])


@pytest.mark.usefixtures("captured")
def test_streams_of_transcriptions_and_images_count_their_parts() -> None:
    client = offline.openai_client.__wrapped__(_hear_or_draw)
    sound = ("a.wav", b"RIFF")
    list(client.audio.transcriptions.create(model="gpt-4o-transcribe", file=sound, stream=True))
    list(client.images.generate(model="gpt-image-1", prompt="x", stream=True))
    heard, drawn = queued()
    assert (heard["prompt_tokens"], heard["audio_prompt_tokens"]) == (13_900, 13_800)
    assert (heard["model"], heard["completion_tokens"]) == ("gpt-4o-transcribe", 450)
    assert (drawn["image_prompt_tokens"], drawn["image_completion_tokens"]) == (540, 4_100)
    assert "canary-7f3a" not in f"{heard}{drawn}"
    assert tallystick.stats()["unknown_fields"] == {}
