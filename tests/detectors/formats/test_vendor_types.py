"""Logs made by the providers' own libraries: every count that their types know is read or refused
for a reason, so that a count that a new version adds fails here."""

import gzip
import json
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, Final, get_args

import anthropic.types as anthropic_types
import anthropic.types.beta as anthropic_beta
import openai.types as openai_types
import openai.types.beta as openai_beta
import pytest
from anthropic.types.message_delta_usage import MessageDeltaUsage
from openai.types.batch_usage import BatchUsage
from openai.types.beta.beta_response_usage import BetaResponseUsage
from openai.types.chat import ChatCompletion
from openai.types.images_response import Usage as ImageUsage
from openai.types.responses import Response
from openai.types.responses.response_usage import ResponseUsage
from pydantic import BaseModel

from detectors.contract import UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import read_chunks, records_of
from detectors.formats.json_logs.anthropic import ANTHROPIC
from detectors.formats.json_logs.openai import OPENAI
from detectors.formats.json_logs.shapes import Listed, Shape

CREATED: Final = 1_767_225_600
# What their usage holds besides counts and short labels.
NO_COUNT: Final = {
    "fallback_credit.status.remove_to_redeem": "a list of the request's parameters, no count",
}
OPENAI_USAGES: Final[list[type[BaseModel]]] = [
    openai_types.CompletionUsage,
    ResponseUsage,
    BetaResponseUsage,
    BatchUsage,
    ImageUsage,
    openai_types.create_embedding_response.Usage,
]
ANTHROPIC_USAGES: Final[list[type[BaseModel]]] = [
    anthropic_types.Usage,
    MessageDeltaUsage,
    anthropic_beta.BetaUsage,
    anthropic_beta.BetaMessageDeltaUsage,
]


def models_of(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this annotation may be, or may be made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_of(part)]


def paths_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all members of a model that are none themselves."""
    for name, field in model.model_fields.items():
        inner = models_of(field.annotation)
        for each in inner:
            yield from paths_of(each, f"{prefix}{name}.")
        if not inner:
            yield prefix + name


def shape_paths(shape: Shape, prefix: str = "") -> Iterator[str]:
    for name, member in shape.members.items():
        inner = member.shape if isinstance(member, Listed) else member
        if isinstance(inner, Shape):
            yield from shape_paths(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def usage_shape(shape: Shape) -> Shape:
    usage = shape.members["usage"]
    assert isinstance(usage, Shape)
    return usage


@pytest.mark.parametrize(
    ("usages", "shape"),
    [(OPENAI_USAGES, OPENAI.flat.shape), (ANTHROPIC_USAGES, ANTHROPIC.flat.shape)],
    ids=["openai", "anthropic"],
)
def test_every_member_of_the_providers_usage_is_known(
    usages: list[type[BaseModel]], shape: Shape
) -> None:
    theirs = {path for usage in usages for path in paths_of(usage)}
    ours = set(shape_paths(usage_shape(shape)))
    assert theirs - ours == {path for path in theirs if path in NO_COUNT}
    assert len(theirs) > 10


def test_every_reason_for_leaving_a_member_out_is_still_needed() -> None:
    theirs = {path for usage in OPENAI_USAGES + ANTHROPIC_USAGES for path in paths_of(usage)}
    assert set(NO_COUNT) <= theirs


def filled(model: type[BaseModel], numbers: Iterator[int]) -> dict[str, Any]:
    """An object of the model with every count in it, each another one."""
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        inner = models_of(field.annotation)
        if inner:
            value: Any = filled(inner[0], numbers)
            values[name] = [value] if "List" in str(field.annotation) else value
        elif "int" in str(field.annotation):
            values[name] = next(numbers)
        elif options := [text for text in _literals(field.annotation) if isinstance(text, str)]:
            values[name] = options[0]
    return model.model_validate(values).model_dump(mode="json", exclude_none=True)


def _literals(annotation: Any) -> list[Any]:
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


CHAT = counted(
    ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": CREATED,
            "model": "gpt-5.4",
            "choices": [],
            "service_tier": "flex",
            "usage": filled(openai_types.CompletionUsage, iter(range(100, 200))),
        }
    )
)
RESPONSE = counted(
    Response.model_validate(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": float(CREATED),
            "model": "gpt-5.4",
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": filled(ResponseUsage, iter(range(100, 200))),
        }
    )
)
EMBEDDING = counted(
    openai_types.CreateEmbeddingResponse.model_validate(
        {
            "object": "list",
            "model": "text-embedding-3-small",
            "data": [],
            "usage": {"prompt_tokens": 100, "total_tokens": 100},
        }
    )
) | {"created": CREATED}
MESSAGE = counted(
    anthropic_types.Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [],
            "usage": filled(anthropic_types.Usage, iter(range(100, 200))),
        }
    )
) | {"ts": "2026-01-01T00:00:00Z"}
BETA_MESSAGE = counted(
    anthropic_beta.BetaMessage.model_validate(
        {
            "id": "msg_2",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-8",
            "content": [],
            "usage": filled(anthropic_beta.BetaUsage, iter(range(100, 200))),
        }
    )
) | {"ts": "2026-01-01T00:00:00Z"}
SHAPES: Final = {
    "chat": CHAT,
    "response": RESPONSE,
    "embedding": EMBEDDING,
    "message": MESSAGE,
    "beta": BETA_MESSAGE,
}


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


CONTAINERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "lines": lambda text: text + b"\n" + text + b"\n",
    "crlf and blank lines": lambda text: b"\r\n" + text + b"\r\n\r\n \t\r\n" + text + b"\r\n\r\n",
    "bom": lambda text: b"\xef\xbb\xbf" + text,
    "array": lambda text: b" [\r\n" + text + b" ,\n" + text + b"]\n",
    "gzip": lambda text: gzip.compress(text + b"\n" + text),
    "gzip of an array with a bom": lambda text: gzip.compress(b"\xef\xbb\xbf[" + text + b"]"),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("is_wrapped", [False, True], ids=["flat", "wrapped"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_log_of_the_providers_own_objects_is_read(
    shape: str, is_wrapped: bool, container: str
) -> None:
    line = SHAPES[shape]
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
    assert set(paths_of(openai_beta.beta_response_usage.BetaResponseUsage)) == set(
        paths_of(ResponseUsage)
    )


COMMAS: Final = [
    (b"[%s,]", "an extra comma, with nothing after it"),
    (b"[%s,,%s]", "an extra comma, with nothing after it"),
    (b"%s\n%s,\n%s,", "a comma after the object"),
    (b'%s\n{"model": "CANARY",}', "an extra comma"),
    (b'%s\n{"usage": {"prompt_tokens": 1,, "a": 2}}', "an extra comma"),
]


@pytest.mark.parametrize(("pattern", "said"), COMMAS)
def test_the_reason_names_an_extra_comma(pattern: bytes, said: str) -> None:
    text = pattern.replace(b"%s", json.dumps(CHAT).encode())
    chunks = list(read_chunks(BytesIO(text)))
    reasons = {row.reason for chunk in chunks for row in chunk.invalid}
    assert [said in reason and "CANARY" not in reason for reason in reasons] == [True]
    assert sum(len(chunk.columns["ts"]) for chunk in chunks) >= 1


def test_a_log_with_a_comma_after_every_line_is_rejected_with_that_reason() -> None:
    line = json.dumps(CHAT).encode()
    with pytest.raises(UnreadableLogError, match="a comma after the object. Use OpenAI"):
        list(read_chunks(BytesIO(line + b",\n" + line + b",\n")))


def test_commas_within_strings_are_not_extra_commas() -> None:
    text = json.dumps(CHAT).encode() + b'\n{"model": ",,", "tag": ",}" "x"}'
    [chunk] = read_chunks(BytesIO(text))
    assert [row.reason for row in chunk.invalid] == ["not JSON"]
