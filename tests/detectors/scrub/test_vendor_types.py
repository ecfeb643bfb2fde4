"""The raw logs of these tests are what the types of the providers' own libraries hold."""

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tests.cases import each_case
from tests.detectors.scrub import raw_logs as raw
from tests.lazily import anthropic, openai

if TYPE_CHECKING:
    from pydantic import BaseModel


@each_case(
    ("kind", "document"),
    [("chat.ChatCompletion", raw.CHAT), ("CreateEmbeddingResponse", raw.EMBEDDING)],
)
def test_openais_types_take_it_as_it_is(kind: str, document: dict[str, Any]) -> None:
    model: type[BaseModel] = attrgetter(kind)(openai.types)
    read = model.model_validate(document)
    assert read.model_extra in ({}, None)
    assert read.model_dump(mode="json", exclude_unset=True) == document


def test_the_responses_api_s_types_take_it_once_complete() -> None:
    whole = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    item = {"id": "out_1", "role": "assistant", "status": "completed"}
    [output] = raw.RESPONSE["output"]
    content = [part | {"annotations": []} for part in output["content"]]
    read = openai.types.responses.Response.model_validate(
        raw.RESPONSE | whole | {"output": [output | item | {"content": content}]}
    )
    assert read.model_extra in ({}, None)
    assert read.usage is not None
    assert read.usage.model_dump(exclude_unset=True) == raw.RESPONSE["usage"]


def test_anthropics_types_take_it_once_complete() -> None:
    types = anthropic.types
    document = raw.MESSAGE | {"stop_sequence": None}
    assert types.Message.model_validate(document).model_dump(exclude_unset=True) == document
    line = {key: value for key, value in raw.ANTHROPIC_BATCH.items() if key != "ts"}
    line["result"] = {"type": "succeeded", "message": document}
    read = types.messages.MessageBatchIndividualResponse.model_validate(line)
    assert read.model_dump(mode="json", exclude_unset=True) == line
