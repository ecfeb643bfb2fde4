"""Logs made by the providers' own libraries, with every count that their types know."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, get_args

import pytest

from detectors.contract import UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import read_chunks, records_of
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.json_logs.shapes import Shape
from tests.cases import each_case
from tests.detectors.formats.usage.numbers import models_of, numbers_of
from tests.lazily import anthropic, openai

if TYPE_CHECKING:
    from pydantic import BaseModel

CREATED: Final = 1_767_225_600
_WHOLES: Final = {
    **dict.fromkeys(("prompt_tokens", "input_tokens"), 10_000),
    **dict.fromkeys(("completion_tokens", "output_tokens"), 10_000),
    **dict.fromkeys(("cache_creation_input_tokens", "cache_write_tokens"), 1_000),
}


def filled(model: type[BaseModel], numbers: Iterator[int]) -> dict[str, Any]:
    """An object of the model with every count in it; wholes exceed the sum of their parts."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = models_of(field.annotation)
        if inner:
            value: Any = filled(inner[0], numbers)
            values[name] = [value] if "List" in str(field.annotation) else value
        elif "int" in str(field.annotation):
            values[name] = next(numbers) + _WHOLES.get(name, 0)
        elif name != "model" and (options := _literals(field.annotation)):
            values[name] = options[0]
    return model.model_validate(values).model_dump(mode="json", exclude_none=True)


def _literals(annotation: Any) -> list[str]:
    parts = get_args(annotation)
    return [part for part in parts if isinstance(part, str)] + [
        text for part in parts if not isinstance(part, str) for text in _literals(part)
    ]


def counted(response: BaseModel, **usage: Any) -> dict[str, Any]:
    """The counts-only part of a response of the provider's own type."""
    kept = ("id", "object", "type", "created", "created_at", "model", "service_tier")
    document = json.loads(response.model_dump_json(exclude_none=True))
    return {name: document[name] for name in kept if name in document} | {
        "usage": document.get("usage", {}) | usage
    }


def _chat() -> dict[str, Any]:
    return counted(
        openai.types.chat.ChatCompletion.model_validate(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": CREATED,
                "model": "gpt-5.4",
                "choices": [],
                "service_tier": "flex",
                "usage": filled(openai.types.CompletionUsage, iter(range(100, 200))),
            }
        )
    )


def _response() -> dict[str, Any]:
    return counted(
        openai.types.responses.Response.model_validate(
            {
                "id": "resp_1",
                "object": "response",
                "created_at": float(CREATED),
                "model": "gpt-5.4",
                "output": [],
                "parallel_tool_calls": False,
                "tool_choice": "auto",
                "tools": [],
                "usage": filled(
                    openai.types.responses.response_usage.ResponseUsage, iter(range(100, 200))
                ),
            }
        )
    )


def _embedding() -> dict[str, Any]:
    return counted(
        openai.types.CreateEmbeddingResponse.model_validate(
            {
                "object": "list",
                "model": "text-embedding-3-small",
                "data": [],
                "usage": {"prompt_tokens": 100, "total_tokens": 100},
            }
        )
    ) | {"created": CREATED}


def _message() -> dict[str, Any]:
    return counted(
        anthropic.types.Message.model_validate(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-4-8",
                "content": [],
                "usage": filled(anthropic.types.Usage, iter(range(100, 200))),
            }
        )
    ) | {"ts": "2026-01-01T00:00:00Z"}


def _beta_message() -> dict[str, Any]:
    return counted(
        anthropic.types.beta.BetaMessage.model_validate(
            {
                "id": "msg_2",
                "type": "message",
                "role": "assistant",
                "model": "claude-opus-4-8",
                "content": [],
                "usage": filled(anthropic.types.beta.BetaUsage, iter(range(100, 200))),
            }
        )
    ) | {"ts": "2026-01-01T00:00:00Z"}


LINES: Final = {
    "chat": _chat,
    "response": _response,
    "embedding": _embedding,
    "message": _message,
    "beta": _beta_message,
}


@cache
def line_of(shape: str) -> dict[str, Any]:
    """Return a line of a log of this shape, made by its provider's types."""
    return LINES[shape]()


def expected_of(line: dict[str, Any]) -> tuple[int, int, int, int]:
    """Prompt, completion, cached and written tokens, as the providers' documentation adds them."""
    usage = line["usage"]
    if line.get("type") == "message":
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return usage["input_tokens"] + read + written, usage["output_tokens"], read, written
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return (
        usage.get("prompt_tokens") or usage["input_tokens"],
        usage.get("completion_tokens") or usage.get("output_tokens") or 0,
        details.get("cached_tokens", 0),
        details.get("cache_write_tokens", 0),
    )


def read_one(log: bytes) -> UsageRecord:
    chunks = list(read_chunks(BytesIO(log)))
    assert not [row for chunk in chunks for row in chunk.invalid]
    records = [record for chunk in chunks for record in records_of(chunk.columns)]
    assert len(set(records)) == 1
    return records[0]


def wrapped(line: dict[str, Any]) -> dict[str, Any]:
    labels = {name: line[name] for name in ("ts",) if name in line}
    response = {name: value for name, value in line.items() if name not in labels}
    return {"request": {"model": line["model"], "max_tokens": 7}, "response": response} | labels


def test_only_the_content_of_a_whole_message_is_beyond_the_contract() -> None:
    """A message as Anthropic's library writes it: with every member, null ones too."""
    for kind in (anthropic.types.Message, anthropic.types.beta.BetaMessage):
        members = set(kind.model_fields)
        assert members - set(ANTHROPIC.flat.shape.members) == {"content"}
        body = ANTHROPIC.wrapped.shape.members["response"]
        assert isinstance(body, Shape)
        assert members - set(body.members) == {"content"}
    members = set(openai.types.chat.ChatCompletion.model_fields)
    assert members - set(OPENAI.flat.shape.members) == {"choices"}


CONTAINERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "lines": lambda text: text + b"\n" + text + b"\n",
    "crlf and blank lines": lambda text: b"\r\n" + text + b"\r\n\r\n \t\r\n" + text + b"\r\n\r\n",
    "bom": lambda text: b"\xef\xbb\xbf" + text,
    "array": lambda text: b" [\r\n" + text + b" ,\n" + text + b"]\n",
    "gzip": lambda text: gzip.compress(text + b"\n" + text),
    "gzip of an array with a bom": lambda text: gzip.compress(b"\xef\xbb\xbf[" + text + b"]"),
}


@each_case("container", CONTAINERS)
@each_case("is_wrapped", [False, True])
@each_case("shape", LINES)
def test_a_log_of_the_providers_own_objects_is_read(
    shape: str, is_wrapped: bool, container: str
) -> None:
    line = line_of(shape)
    text = json.dumps(wrapped(line) if is_wrapped else line).encode()
    record = read_one(CONTAINERS[container](text))
    counts = (
        record.prompt_tokens,
        record.completion_tokens,
        record.cached_tokens or 0,
        record.cache_write_tokens or 0,
    )
    assert counts == expected_of(line)
    assert record.model == line["model"]
    assert record.ts.timestamp() == CREATED
    assert record.request_id == line.get("id")
    assert record.declared_max_tokens == (7 if is_wrapped else None)


def test_the_betas_of_the_responses_api_are_the_same_as_its_own_counts() -> None:
    from openai.types.beta.beta_response_usage import BetaResponseUsage

    assert set(numbers_of(BetaResponseUsage)) == set(
        numbers_of(openai.types.responses.response_usage.ResponseUsage)
    )


COMMAS: Final = [
    (b"[%s,]", "an extra comma, with nothing after it"),
    (b"[%s,,%s]", "an extra comma, with nothing after it"),
    (b"%s\n%s,\n%s,", "a comma after the object"),
    (b'%s\n{"model": "CANARY",}', "an extra comma"),
    (b'%s\n{"usage": {"prompt_tokens": 1,, "a": 2}}', "an extra comma"),
]


@each_case(("pattern", "said"), COMMAS)
def test_the_reason_names_an_extra_comma(pattern: bytes, said: str) -> None:
    text = pattern.replace(b"%s", json.dumps(line_of("chat")).encode())
    chunks = list(read_chunks(BytesIO(text)))
    reasons = {row.reason for chunk in chunks for row in chunk.invalid}
    assert [said in reason and "CANARY" not in reason for reason in reasons] == [True]
    assert sum(len(chunk.columns["ts"]) for chunk in chunks) >= 1


def test_commas_after_lines_are_named_and_those_within_strings_are_none() -> None:
    line = json.dumps(line_of("chat")).encode()
    with pytest.raises(UnreadableLogError, match="a comma after the object: use OpenAI"):
        list(read_chunks(BytesIO(line + b",\n" + line + b",\n")))
    # Commas within strings are not extra commas.
    text = json.dumps(line_of("chat")).encode() + b'\n{"model": ",,", "tag": ",}" "x"}'
    [chunk] = read_chunks(BytesIO(text))
    assert [row.reason for row in chunk.invalid] == ["not JSON"]
