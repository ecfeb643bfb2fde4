"""Agents of the frameworks: no request is lost, each call counts once, and each switch works.

The stress test runs the programs again, with the packages of the lock files.
"""

import json
import shutil
import zlib
from typing import Any

import pytest

from service.web.otlp.answers import describe
from service.web.otlp.content import find_switch
from service.web.otlp.requests import Calls
from tests.cases import each_case
from tests.service.otlp.frameworks.recording import (
    FRAMEWORKS,
    NODES,
    OFF,
    ON,
    TEXT,
    Framework,
    read_shapes,
    record,
    requests_of,
    shape_of,
)
from tests.service.otlp.frameworks.stub import CANARY
from tests.service.otlp.requests import read, records_of

SHAPES = read_shapes()
Counts = tuple[int, int, int | None, int | None]
# prompt, completion, cached, written: as the providers' answers say.
CHAT: Counts = (1_000, 50, 600, None)
RESPONSES: Counts = (1_100, 55, 700, None)
MESSAGES: Counts = (1_600, 40, 500, 300)
CONVERSE: Counts = (1_200, 45, 500, None)
GEMINI: Counts = (1_200, 260, 800, None)
# Less what an instrumentation does not export.
UNCACHED: Counts = (1_000, 50, None, None)
EXPECTED: dict[str, list[Counts]] = {
    "agent_framework": [CHAT, CHAT, RESPONSES, RESPONSES],
    "anthropic_sdk": [MESSAGES, MESSAGES],
    # It sums the counts that streams begin with.
    "claude_agent": [(1_600, 1, 500, 300)],
    "crewai": [CHAT, CHAT],
    "genai_anthropic": [MESSAGES, MESSAGES],
    "genai_openai": [CHAT, RESPONSES],
    "google_adk": [GEMINI, GEMINI],
    "langfuse": [CHAT, CHAT],
    "langsmith": [CHAT, CHAT, MESSAGES, MESSAGES],
    "litellm": [CHAT, MESSAGES],
    "logfire": [CHAT, RESPONSES, MESSAGES, MESSAGES],
    "llama_index": [CHAT, CHAT],
    "openai_agents": [UNCACHED, UNCACHED, RESPONSES, RESPONSES],
    "openinference_anthropic": [MESSAGES, MESSAGES],
    "openinference_langchain": [CHAT, CHAT, MESSAGES, MESSAGES],
    "openllmetry": [CHAT, CHAT, CONVERSE],
    "openllmetry_crewai": [CHAT, CHAT],
    "openllmetry_llama_index": [CHAT, CHAT],
    # It exports no usage of chat completions.
    "openllmetry_openai_agents": [RESPONSES, RESPONSES],
    "openllmetry.cjs": [MESSAGES, UNCACHED],
    "openlit": [CHAT, RESPONSES, MESSAGES, MESSAGES],
    "pydantic_ai": [CHAT, CHAT, MESSAGES, MESSAGES],
    "sentry.cjs": [MESSAGES, CHAT, RESPONSES],
    "strands": [CONVERSE, CONVERSE, CHAT, CHAT],
    "vercel_ai.cjs": [CHAT, CHAT, RESPONSES, RESPONSES],
    "vercel_ai_7.mjs": [CHAT, CHAT, RESPONSES, RESPONSES],
}
# These export no lifetime of what they write to the cache.
WITHOUT_LIFETIME = {"claude_agent", "openlit", "openllmetry.cjs", "sentry.cjs"}
# These have no text in their spans, or none that a switch turns off.
NEVER_TEXT = {"anthropic_sdk"}
ALWAYS_TEXT = {"openllmetry_crewai": "opentelemetry.instrumentation.crewai"}
# A collector drops these before they are sent, because no switch turns them off.
WITHOUT_SWITCH = {
    "logfire": ("gen_ai.input.messages", "gen_ai.output.messages"),
    "openlit": ("gen_ai.tool.args", "gen_ai.tool.call.arguments"),
}
DROP = "drop the attributes in an OpenTelemetry Collector."


def _read(shape: dict[str, Any]) -> Calls:
    return read(b"".join(requests_of(shape)))


def _counts(calls: Calls) -> list[Counts]:
    found = [
        (
            each["prompt_tokens"],
            each["completion_tokens"],
            each.get("cached_tokens"),
            each.get("cache_write_tokens"),
        )
        for each in records_of(calls)
    ]
    return sorted(found, key=str)


def _text_of(name: str, calls: Calls) -> list[str]:
    found = {each for _, names in calls.texts.values() for each in names}
    assert found <= {*WITHOUT_SWITCH[name]}
    return sorted(found)


def _dropped(shape: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    shape = json.loads(json.dumps(shape))
    for attributes in (span[6] for spans in shape["requests"] for span in spans):
        for name in names:
            attributes.pop(name, None)
    return shape


def _check_off(name: str, shape: dict[str, Any]) -> None:
    """Check that the switches work, and that all that counts is said."""
    calls = _read(shape)
    if name in WITHOUT_SWITCH:
        (said,) = [said for said in describe(calls) if "because of text" in said]
        assert said.endswith(f"because of text in {', '.join(_text_of(name, calls))}: {DROP}")
        calls = _read(_dropped(shape, WITHOUT_SWITCH[name]))
    assert _counts(calls) == sorted(EXPECTED[name], key=str)
    assert calls.rejected == calls.assumed == calls.unread == calls.unnamed == 0
    assert calls.unknown == []
    records = records_of(calls)
    written = sum(each.get("cache_write_tokens", 0) for each in records)
    an_hour = sum(each.get("cache_write_1h_tokens", 0) for each in records)
    assert an_hour == (0 if name in WITHOUT_LIFETIME else written)
    rejected = [switch.scope for switch in calls.texts if switch]
    assert rejected == [f"{ALWAYS_TEXT[name]}*"] if name in ALWAYS_TEXT else not calls.texts
    sent = sum(map(len, shape["requests"]))
    assert calls.calls + calls.rejected + sum(count for count, _ in calls.texts.values()) <= sent
    if calls.calls > len(EXPECTED[name]):
        assert any("doesn't count" in said for said in describe(calls))


def _check_on(framework: Framework, shape: dict[str, Any]) -> None:
    """Check that the message names what was set when the same program's spans passed."""
    calls = _read(shape)
    expected = [*EXPECTED[framework.name]]
    for each in _counts(calls):
        expected.remove(each)  # fails for what counts twice
    if framework.name in NEVER_TEXT:
        assert expected == []
        return
    assert sum(count for count, _ in calls.texts.values()) >= 1
    ours = [switch for switch in calls.texts if switch and switch.switch]
    said = " ".join(describe(calls))
    assert ours or said.endswith(DROP)
    for name in WITHOUT_SWITCH.get(framework.name, ()):
        assert name in said or name == "gen_ai.tool.args"
    assert all(f"{name}={framework.off[name]}" in f"{ours}" for name in framework.off)
    lines = zlib.decompress(calls.lines) if calls.lines else b""
    assert TEXT.encode() not in lines
    assert TEXT not in " ".join(describe(calls))


@each_case("framework", FRAMEWORKS)
def test_every_call_of_a_framework_counts_once_with_its_switch(framework: Framework) -> None:
    _check_off(framework.name, SHAPES[framework.name, OFF])


@each_case("framework", FRAMEWORKS)
def test_text_of_a_framework_is_rejected_with_the_switch_that_works(framework: Framework) -> None:
    _check_on(framework, SHAPES[framework.name, ON])


@each_case("framework", FRAMEWORKS)
def test_each_request_alone_is_accepted(framework: Framework) -> None:
    """Batches cut a trace anywhere."""
    for mode in (OFF, ON):
        for body in requests_of(SHAPES[framework.name, mode]):
            assert find_switch("mine") not in read(body).texts


def test_the_shapes_hold_no_text_of_a_program() -> None:
    text = json.dumps(list(SHAPES.values()))
    assert CANARY.partition("-")[0] not in text
    assert not any(word in text for word in ("/root", "/home", "/work", "127.0.0.1"))
    assert {name for name, _ in SHAPES} == EXPECTED.keys() == {each.name for each in FRAMEWORKS}


@pytest.mark.stress
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda framework: framework.name)
def test_the_framework_itself_sends_what_was_recorded(framework: Framework) -> None:
    if framework.lock in NODES and shutil.which("node") is None:
        pytest.fail("node is not installed")
    _check_off(framework.name, shape_of(record(framework, OFF)))
    _check_on(framework, shape_of(record(framework, ON)))
