"""The raw logs of these tests are what the types of the providers' own libraries hold."""

from typing import Any

import pytest
from anthropic.types import Message
from anthropic.types.messages import MessageBatchIndividualResponse
from openai.types import CreateEmbeddingResponse
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from tests.detectors.scrub import raw_logs as raw


@pytest.mark.parametrize(
    ("model", "document"),
    [(ChatCompletion, raw.CHAT), (CreateEmbeddingResponse, raw.EMBEDDING)],
)
def test_openais_types_take_it_as_it_is(model: type[BaseModel], document: dict[str, Any]) -> None:
    read = model.model_validate(document)
    assert read.model_extra in ({}, None)
    assert read.model_dump(mode="json", exclude_unset=True) == document


def test_the_responses_api_s_types_take_it_once_complete() -> None:
    whole = {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    item = {"id": "out_1", "role": "assistant", "status": "completed"}
    [output] = raw.RESPONSE["output"]
    content = [part | {"annotations": []} for part in output["content"]]
    read = Response.model_validate(
        raw.RESPONSE | whole | {"output": [output | item | {"content": content}]}
    )
    assert read.model_extra in ({}, None)
    assert read.usage is not None
    assert read.usage.model_dump(exclude_unset=True) == raw.RESPONSE["usage"]


def test_anthropics_types_take_it_once_complete() -> None:
    document = raw.MESSAGE | {"stop_sequence": None}
    assert Message.model_validate(document).model_dump(exclude_unset=True) == document
    line = {key: value for key, value in raw.ANTHROPIC_BATCH.items() if key != "ts"}
    line["result"] = {"type": "succeeded", "message": document}
    read = MessageBatchIndividualResponse.model_validate(line)
    assert read.model_dump(mode="json", exclude_unset=True) == line
