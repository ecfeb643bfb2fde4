"""What is read of a request, of an answer's headers and of a usage."""

from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

import tallystick
from tallystick import calls, capture
from tallystick.calls import begin
from tallystick.capture import Background
from tallystick.hooks import answers
from tallystick.reading import options
from tallystick.reading.options import declared_limit, route_of
from tallystick.reading.prompts import hash_prefixes
from tallystick.reading.usage.reader import Reading, read_usage
from tallystick.reading.usual import usual_message, usual_usage
from tallystick.sending.dsn import parse_dsn
from tests.cases import data_of, each_case
from tests.client.offline import queued, record_calls
from tests.lazily import anthropic, openai


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("method", ["post", "POST"])
def test_a_post_counts_however_it_is_written(method: str) -> None:
    asked = SimpleNamespace(method=method, url="/chat/completions", json_data={"model": "m"})
    assert begin("openai", object(), asked) is not None


def test_memory_is_bounded() -> None:
    for number in range(1_000):
        calls._clean_model(f"model {number}")
    assert len(calls._models) <= 256
    # Memory of answers is bounded.
    for number in range(1_000):
        answers._kind_of(type(f"Answer{number}", (), {}))
    assert len(answers._kinds) <= 256
    answers._kinds.clear()


def test_text_in_the_result_of_a_tool_is_hashed() -> None:
    result = {"type": "tool_result", "content": [{"type": "text", "text": "a"}]}
    assert hash_prefixes({"messages": [{"content": [result]}]}) == hash_prefixes({"prompt": "a"})
    assert hash_prefixes({"messages": {"parts": [{"text": "a"}]}}) == hash_prefixes({"prompt": "a"})


@each_case("characters", [1, 100, 3_000])
def test_a_long_chat_has_the_hashes_of_its_text(characters: int) -> None:
    texts = [f"{number}é" * characters for number in range(200)]
    chat = {"messages": [{"role": "user", "content": text} for text in texts]}
    assert hash_prefixes(chat) == hash_prefixes({"prompt": "\n".join(texts)})


def test_a_response_that_is_awaited_is_counted_and_lets_no_other_count() -> None:
    background = Background()
    background.expect(None, 1_000.0)
    assert not background.is_new("resp_of_yesterday", has_usage=True, created_at=0)
    assert not background.is_new("resp_of_any_time", has_usage=True)
    assert background.is_new("resp_1", has_usage=True, created_at=1_002)
    assert not background.is_new("resp_2", has_usage=True, created_at=1_003)
    # A pending response lets no other count.
    background = Background()
    background.expect("resp_1", 1_000.0)
    assert not background.is_new("resp_2", has_usage=True)
    assert background.is_new("resp_1", has_usage=True)


@each_case(("total", "counts"), [(5, [(5, 0, None, None)]), (6, []), (None, [])])
def test_where_the_total_is_the_prompt_there_was_no_output(
    total: int | None, counts: object
) -> None:
    found = read_usage({"prompt_tokens": 5, "total_tokens": total})
    assert [(one.prompt, one.completion, one.cached, one.written) for one in found] == counts


def test_fields_that_an_older_library_lacks_count() -> None:
    details = SimpleNamespace(cached_tokens=4, __pydantic_extra__={"cache_write_tokens": 2})
    usage = SimpleNamespace(prompt_tokens=9, completion_tokens=1, prompt_tokens_details=details)
    (found,) = read_usage(usage)
    assert (found.prompt, found.completion, found.cached, found.written) == (9, 1, 4, 2)


@pytest.mark.usefixtures("captured")
def test_a_message_without_output_tokens_makes_no_record() -> None:
    asked = SimpleNamespace(method="post", url="/v1/messages", json_data={"model": "m"})
    call = begin("anthropic", object(), asked)
    assert call is not None
    call.see({"usage": {"input_tokens": 5}})
    call.end()
    assert queued() == []
    assert tallystick.stats()["without_usage"] == 1


@each_case("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_each_name_of_a_limit_is_known(name: str) -> None:
    assert declared_limit({name: 7}) == 7


@pytest.mark.usefixtures("captured")
def test_manual_records_have_the_surrounding_tag() -> None:
    with tallystick.tag("inside"):
        record_calls()
        tallystick.record(model="m", prompt_tokens=1, completion_tokens=1, tag="own")
    assert [record["tag"] for record in queued()] == ["inside", "own"]


@each_case("mark", [*":/?#[]@\\\"'"])
def test_a_key_has_no_marks(mark: str) -> None:
    assert parse_dsn(f"https://ik{mark}x@host") is None


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize(("library", "found"), [("openai", "req_1"), ("anthropic", "req_2")])
def test_each_library_has_a_header_of_its_own_for_the_id(library: str, found: str) -> None:
    asked = SimpleNamespace(method="post", url="/chat/completions", json_data={"model": "m"})
    call = begin(library, object(), asked)
    assert call is not None
    call.arrived(httpx2.Headers({"x-request-id": "req_1", "request-id": "req_2"}), False)
    assert call._id_of_request() == found


@each_case("url", ["https://me:secret@h/chat/completions", "/messages?key=secret"])
def test_no_url_that_may_hold_a_secret_is_remembered(url: str) -> None:
    assert route_of(url)[0] in ("chat/completions", "messages")
    assert "secret" not in str(list(options._routes))


def counts_of(reading: Reading) -> tuple[Any, ...]:
    part = reading.parts.get
    counts = (reading.prompt, reading.completion, reading.cached, reading.written)
    return (*counts, part("reasoning_tokens"), part("cache_write_1h_tokens"))


def same(found: tuple[Any, ...] | None, usage: Any) -> bool:
    """Whether a shortcut, if it takes a usage at all, has what the reader has."""
    (reading,) = read_usage(usage)
    assert not reading.unknown
    expected = tuple(count or None for count in counts_of(reading))
    return found is None or tuple(count or None for count in found) == expected


@each_case(
    ("details", "total", "is_usual"),
    [
        ({}, 12, True),
        ({"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2}}, 12, True),
        ({"prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 5}}, 12, False),
        ({"completion_tokens_details": {"reasoning_tokens": 4}}, 12, True),
        ({"completion_tokens_details": {"reasoning_tokens": 4}}, 16, False),
        ({"prompt_tokens_details": {"audio_tokens": 3}}, 12, False),
        ({"prompt_cache_hit_tokens": 6}, 12, False),
    ],
)
def test_usages_read_in_few_steps_are_read_as_all_others(
    details: dict[str, Any], total: int, is_usual: bool
) -> None:
    members = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": total, **details}
    usage = openai.types.CompletionUsage.model_validate(members)
    found = usual_usage(usage, "chat/completions")
    assert (found is not None) == is_usual
    assert same(found, usage)


@each_case(
    ("details", "is_usual"),
    data_of(__file__)["messages_read_in_few_steps_are_read_as_all_others"],
)
def test_messages_read_in_few_steps_are_read_as_all_others(
    details: dict[str, Any], is_usual: bool
) -> None:
    usage = anthropic.types.Usage.model_validate({"input_tokens": 7, "output_tokens": 5, **details})
    found = usual_message(usage)
    assert (found is not None) == is_usual
    assert same(found, usage)


def test_a_class_with_a_member_that_we_don_t_know_is_not_usual() -> None:
    """A newer library may know a count that this release does not: the reader says so."""

    class Newer(openai.types.CompletionUsage):  # type: ignore[misc]
        hologram_tokens: int = 0

    usage = Newer(prompt_tokens=7, completion_tokens=5, total_tokens=12, hologram_tokens=900)
    assert usual_usage(usage, "chat/completions") is None
    assert read_usage(usage)[0].unknown == {"hologram_tokens": 900}


@pytest.mark.usefixtures("captured")
def test_unknown_numbers_of_a_usage_are_in_the_statistics() -> None:
    for largest in (7, 41_200, 5):
        asked = SimpleNamespace(method="post", url="/completions", json_data={"model": "m"})
        call = begin("openai", object(), asked)
        assert call is not None
        details = {"hologram_tokens": largest, "Dear Bob, my password is": 3}
        counts = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}
        call.see({"usage": counts})
        call.end()
    assert tallystick.stats()["unknown_fields"] == {
        "prompt_tokens_details.hologram_tokens": {"calls": 3, "largest": 41_200},
        "prompt_tokens_details.*": {"calls": 3, "largest": 3},
    }
    assert len(queued()) == 3


@pytest.mark.usefixtures("captured")
def test_names_of_unknown_numbers_take_a_bounded_memory() -> None:
    current = capture.active
    assert current is not None
    for number in range(1_000):
        current.note_unknown(f"name_{number}", 1)
    assert len(tallystick.stats()["unknown_fields"]) == 100
