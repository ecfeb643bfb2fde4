"""Other libraries with the base of OpenAI's and Anthropic's: Groq and Together."""

from __future__ import annotations

import functools
import json
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

import tallystick
from tallystick import hooks
from tallystick.hooks import streams
from tests.client import offline
from tests.client.environments import LOCKS, environment_python, run
from tests.client.matrix import CAPTURED
from tests.client.offline import queued
from tests.client.provider_stub import CHAT_COUNTS, CHAT_USAGE, MESSAGES_COUNTS
from tests.client.styles import CLAUDE
from tests.worker.support.promises import Note

LIBRARIES: Final = ("groq", "together")


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_style_of_a_further_library_counts_once(library: str, note: Note) -> None:
    python = environment_python(LOCKS / "others" / "further.lock")
    found = json.loads(run(python, "-W", "ignore", "-m", "tests.client.matrix", library))
    assert found["faults"] == 0
    wrong = [row for row in found["rows"] if row["verdict"] != CAPTURED]
    assert wrong == []
    assert {record["provider"] for row in found["rows"] for record in row["records"]} == {library}
    note(f"call styles of {library}", len(found["rows"]), len(wrong))


class _Helper:
    """As those of anthropic up to 0.42 make a second stream of the same response."""

    def __init__(self, stream: Any) -> None:
        kind = type(stream)
        options = {"cast_to": stream._cast_to, "client": stream._client}
        self._raw_stream = kind(response=stream.response, **options)


class _Without:
    def __init__(self, stream: Any) -> None:
        self._raw_stream = stream


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("kind", [_Helper, _Without])
def test_a_helper_with_a_stream_of_its_own_counts_once(kind: type) -> None:
    hooks._hook(kind, "__init__", functools.partial(streams.wrap_helper, "anthropic"))
    with offline.anthropic_client().messages.create(**CLAUDE, stream=True) as stream:
        helper = kind(stream)
        assert len(list(helper._raw_stream)) == 22
    (record,) = queued()
    assert record["completion_tokens"] == MESSAGES_COUNTS[1]
    assert tallystick.stats()["faults"] == 0


@pytest.mark.usefixtures("captured")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("holder", ["usage", "x_groq"])
def test_a_further_library_is_hooked_as_the_others(library: str, holder: str) -> None:
    usage = CHAT_USAGE if holder == "usage" else {"id": "req_1", "usage": CHAT_USAGE}

    class SyncAPIClient:
        def request(self, cast_to: Any, options: Any) -> Any:
            return {holder: usage, "model": "m"}

    module = ModuleType(f"{library}._base_client")
    vars(module)["SyncAPIClient"] = SyncAPIClient
    hooks._hook_module(module)
    asked = {"method": "post", "url": "/openai/v1/chat/completions", "json_data": {"model": "m"}}
    SyncAPIClient().request(dict, SimpleNamespace(**asked))
    (record,) = queued()
    assert (record["provider"], record["model"]) == (library, "m")
    assert (record["prompt_tokens"], record["completion_tokens"]) == CHAT_COUNTS[:2]
    assert tallystick.stats()["faults"] == 0
