"""What real instrumentations sent, recorded against the provider stub: every call counts once.

The stress test runs the programs again, with the packages of the lock files.
"""

import shutil
import zlib
from typing import Any

import pytest

from service.web.otlp.answers import describe
from service.web.otlp.content import COLLECTOR, find_switch
from tests.cases import each_case
from tests.client.provider_stub import (
    CANARY,
    CHAT_COUNTS,
    EMBEDDINGS_COUNTS,
    MESSAGES_COUNTS,
    RESPONSES_COUNTS,
)
from tests.service.otlp.recording import EVERY, VERCEL, Program, export_path, record
from tests.service.otlp.requests import read, records_of

Counts = tuple[int, int, int | None, int | None]


def _without_writes(counts: Counts) -> Counts:
    return (*counts[:3], None)


# What the providers' answers say, less what an instrumentation does not export.
OPENAI: list[Counts] = [CHAT_COUNTS, CHAT_COUNTS, RESPONSES_COUNTS, EMBEDDINGS_COUNTS]
OPENAI_WITHOUT_WRITES: list[Counts] = [_without_writes(counts) for counts in OPENAI]
ANTHROPIC: list[Counts] = [MESSAGES_COUNTS, MESSAGES_COUNTS]
EXPECTED: dict[str, list[Counts]] = {
    "instrumentation_openai": OPENAI_WITHOUT_WRITES,
    # It traces no responses, and exports no cached tokens.
    "instrumentation_openai_v2": [
        *[(*CHAT_COUNTS[:2], None, None)] * 2,
        (*EMBEDDINGS_COUNTS[:2], None, None),
    ],
    "instrumentation_anthropic": ANTHROPIC,
    "traceloop_sdk": OPENAI_WITHOUT_WRITES + ANTHROPIC,
    "openinference_openai": OPENAI,
    "openinference_anthropic": ANTHROPIC,
    "langchain_alone": [_without_writes(CHAT_COUNTS), MESSAGES_COUNTS],
    "langchain_over_openai": [CHAT_COUNTS, MESSAGES_COUNTS],
    "pydantic_ai_agent": [CHAT_COUNTS, MESSAGES_COUNTS],
    "logfire_sdk": OPENAI + ANTHROPIC,
    "litellm_callback": [CHAT_COUNTS, MESSAGES_COUNTS],
    # Of a stream of messages it leaves out the cached tokens.
    "openlit_sdk": [*OPENAI, MESSAGES_COUNTS, (401, 43, None, None)],
    "vercel_ai": [*[CHAT_COUNTS] * 2, *[RESPONSES_COUNTS] * 2, *ANTHROPIC, EMBEDDINGS_COUNTS],
}
# Logfire has no switch for text; a collector drops these attributes before they are sent.
WITHOUT_SWITCH = {"logfire_sdk": (b"gen_ai.input.messages", b"gen_ai.output.messages")}


def _dropped(name: str, body: bytes) -> bytes:
    """Rename attributes to others of the same length, which stand for those that are gone."""
    for attribute in WITHOUT_SWITCH.get(name, ()):
        body = body.replace(attribute, b"x" * len(attribute))
    return body


def _counts(record: dict[str, Any]) -> Counts:
    return (
        record["prompt_tokens"],
        record["completion_tokens"],
        record.get("cached_tokens"),
        record.get("cache_write_tokens"),
    )


def _check(name: str, body: bytes) -> None:
    calls = read(_dropped(name, body))
    found = records_of(calls)
    key = str  # counts may be None
    assert sorted(map(_counts, found), key=key) == sorted(EXPECTED[name], key=key)
    assert {each["provider"] for each in found} <= {"openai", "anthropic"}
    assert {each["tag"] for each in found} == {"checkout"}
    assert len({each["request_id"] for each in found}) == len(found)
    assert calls.rejected == 0
    assert CANARY.partition("-")[0].encode() not in zlib.decompress(calls.lines)


@each_case("program", EVERY)
def test_every_call_of_an_instrumentation_counts_once(program: Program) -> None:
    _check(program.name, export_path(program.name, "off").read_bytes())


@each_case("program", EVERY)
def test_spans_with_text_are_rejected_alone_without_repeating_it(program: Program) -> None:
    calls = read(export_path(program.name, "on").read_bytes())
    assert sum(count for count, _ in calls.texts.values()) >= 2
    for switch in calls.texts:
        assert switch is not None
        assert switch == find_switch(switch.scope)
    message = " ".join(describe(calls))
    assert COLLECTOR in message
    assert "canary" not in message
    assert b"canary" not in (zlib.decompress(calls.lines) if calls.lines else b"")


def test_exports_count_once_and_name_no_machine() -> None:
    # Anthropic's own spans, which hold none, are beside those of each instrumentation.
    found = records_of(read(export_path("instrumentation_anthropic", "on").read_bytes()))
    assert sorted(map(_counts, found)) == sorted(ANTHROPIC)
    # An export that is sent twice counts once.
    body = export_path("traceloop_sdk", "off").read_bytes()
    assert records_of(read(body + body)) == records_of(read(body))
    # The exports name no machine.
    for path in export_path("", "").parent.glob("*.bin"):
        assert not any(
            word in path.read_bytes() for word in (b"/root", b"/home", b"/work", b"host.")
        )


@pytest.mark.stress
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("program", EVERY, ids=lambda program: program.name)
def test_the_program_itself_sends_what_was_recorded(program: Program) -> None:
    if program is VERCEL and shutil.which("node") is None:
        pytest.fail("node is not installed")
    _check(program.name, record(program, "off"))
    assert read(record(program, "on")).texts
