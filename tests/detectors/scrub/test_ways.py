"""What came in several ways counts once: agents, gateways, logs, and the same answer read again.

The cases are those of public bug reports, whose addresses stand beside them.
"""

import json
from datetime import datetime, timedelta
from io import BytesIO
from itertools import permutations
from typing import Any, Final

import pytest

from detectors.formats.adapters import duplicates
from detectors.scrub.scrubber import Scrubber
from tests.cases import each_case

Row = dict[str, Any]
Counts = tuple[int, int]
# Seconds before midnight, so that most cases are on both sides of it.
BEGIN: Final = datetime.fromisoformat("2026-09-21T23:59:57+00:00")
SESSION: Final = "5d3f9b1c-2a4e-4f70-8f0e-1f0e1c2d3b4a"


def at(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat(timespec="milliseconds")


def millisecond(second: float) -> int:
    return round((BEGIN.timestamp() + second) * 1_000)


def message(name: str, given: int, answered: int, second: float, **fields: Any) -> Row:
    """A line of Claude Code."""
    usage = {"input_tokens": given, "output_tokens": answered}
    inner = {"id": name, "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage}
    row: Row = {"type": "assistant", "timestamp": at(second), "sessionId": SESSION}
    return row | {"requestId": f"req_{name}", "message": inner} | fields


def spend(name: str, given: int, answered: int, second: float, **fields: Any) -> Row:
    """A row of LiteLLM."""
    row: Row = {"request_id": name, "call_type": "acompletion", "model": "claude-sonnet-4-5"}
    row |= {"custom_llm_provider": "anthropic", "startTime": at(second), "status": "success"}
    return row | {"prompt_tokens": given, "completion_tokens": answered} | fields


def helicone(name: str, given: int, answered: int, second: float) -> Row:
    row: Row = {"request_id": f"h-{second}", "request_created_at": at(second), "model": "gpt-4o"}
    row |= {"provider": "OPENAI", "response_status": 200, "response_body": {"id": name}}
    return row | {"prompt_tokens": given, "completion_tokens": answered}


def exchange(name: str, given: int, answered: int, second: float) -> Row:
    usage = {"prompt_tokens": given, "completion_tokens": answered}
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "How deep?"}]}
    return {
        "ts": at(second),
        "request": asked,
        "response": {"id": name, "model": "gpt-4o", "usage": usage},
    }


def answer(second: float) -> Row:
    """A response that is read again, which costs nothing."""
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    created = round(BEGIN.timestamp())
    response = {"id": "resp_A", "object": "response", "created_at": created, "model": "gpt-5"}
    return {"ts": at(second), "response": response | {"usage": usage}}


def part(answered: int) -> Row:
    usage = {"prompt_tokens": 10, "completion_tokens": answered}
    row: Row = {"id": "chatcmpl-A", "object": "chat.completion.chunk", "model": "gpt-4o"}
    return row | {"created": round(BEGIN.timestamp()), "choices": [], "usage": usage}


def observation(
    name: str, given: int, answered: int, within: str | None, kind: str = "GENERATION"
) -> Row:
    """An observation of Langfuse."""
    usage = {"input": given, "output": answered, "total": given + answered} if given else {}
    row: Row = {"id": name, "traceId": "t", "type": kind, "startTime": at(0), "model": "gpt-4o"}
    return row | {"parentObservationId": within, "usageDetails": usage}


def opencode(name: str, session: str, given: int, answered: int, second: float) -> Row:
    """A row of `session_message`, of opencode 2."""
    begun = millisecond(second)
    cache = {"read": 0, "write": 0}
    data = {
        "model": {"id": "claude-sonnet-4-5", "providerID": "anthropic"},
        "time": {"created": begun, "completed": begun + 900},
        "tokens": {"input": given, "output": answered, "reasoning": 0, "cache": cache},
    }
    row: Row = {"id": name, "session_id": session, "type": "assistant", "time_created": begun}
    return row | {"data": json.dumps(data)}


def lines(*rows: Row) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


TABLE: Final = (
    b"request_id,call_type,model,prompt_tokens,completion_tokens,startTime,cache_hit\n"
    b"chatcmpl-A,acompletion,gpt-4o,12345,678,2026-09-21T23:59:59.125Z,False\n"
    b"chatcmpl-B,acompletion,gpt-4o,22345,679,2026-09-22T00:00:02.250Z,False\n"
)
GENERATIONS: Final = (
    b"generation_id,created_at,model,native_tokens_prompt,native_tokens_completion\n"
    b"gen-1-a,2026-09-21T23:59:59.125Z,openai/gpt-4o,100,8\n"
)
LATE: Final = lines(spend("msg_A", 1_000, 80, 0, endTime=at(99)))
RESPONSES: Final = [
    spend("resp_A", 121, 400, 0, call_type="aresponses"),
    spend("resp_A", 121, 400, 110, call_type="aget_responses"),
    spend("resp_A", 121, 400, 9_000, call_type="aget_responses"),
]
HIT: Final = {"metadata": {"cache_hit": True}}
GEMINI_ID: Final = "mAUjaYqJM5-sjMcP3Z2V4Aw"
GEMINI: Final = {
    "ts": at(0),
    "modelVersion": "gemini-2.5-flash",
    "responseId": GEMINI_ID,
    "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10},
}
ONCE: Final[list[Counts]] = [(1_000, 80)]
CASES: Final[dict[str, tuple[list[Counts], list[bytes]]]] = {
    "an agent and a gateway": (
        ONCE,
        [
            lines(message("msg_A", 1_000, 1, 2), message("msg_A", 1_000, 80, 4)),
            lines(spend("msg_A", 1_000, 80, 0)),
        ],
    ),
    "an agent that was killed, and a gateway": (
        ONCE,
        [lines(message("msg_A", 1_000, 1, 2)), lines(spend("msg_A", 1_000, 80, 0))],
    ),
    "an agent whose first line came late": (ONCE, [lines(message("msg_A", 1_000, 80, 95)), LATE]),
    "an agent, much later": ([*ONCE, *ONCE], [lines(message("msg_A", 1_000, 80, 160)), LATE]),
    # https://github.com/BerriAI/litellm/issues/28562
    "a gateway that has the answer's ID within": (
        ONCE,
        [
            lines(message("msg_A", 1_000, 80, 4)),
            lines(spend("ffcb49e7", 1_000, 80, 0, response={"id": "msg_A"})),
        ],
    ),
    # https://github.com/BerriAI/litellm/pull/41273
    "a gateway that notes the answer's ID": (
        ONCE,
        [
            lines(message("msg_A", 1_000, 80, 4)),
            lines(spend("ffcb49e7", 1_000, 80, 0, metadata={"response_id": "msg_A"})),
        ],
    ),
    "a gateway that notes the same ID for all answers": (
        [(10, 5), (10, 5), (12, 5)],
        [
            lines(
                spend("chatcmpl-0", 10, 5, 0, metadata={"response_id": "chatcmpl-0"}),
                spend("c3e6d8e0", 10, 5, 5, metadata={"response_id": "chatcmpl-0"}),
                spend("d4e6d8e0", 12, 5, 9, metadata={"response_id": "chatcmpl-0"}),
            )
        ],
    ),
    "two gateways and a log": (
        [(100, 8)],
        [
            lines(helicone("chatcmpl-A", 100, 8, 1)),
            lines(spend("chatcmpl-A", 100, 8, 0, custom_llm_provider="azure")),
            lines(exchange("chatcmpl-A", 100, 8, 4)),
        ],
    ),
    "OpenRouter's CSV and a log": (
        [(100, 8)],
        [GENERATIONS, lines(exchange("gen-1-a", 100, 8, 0))],
    ),
    "an ID that only its provider tells": (
        [(100, 10)],
        [
            lines(GEMINI),
            lines(spend(GEMINI_ID, 100, 10, 1, custom_llm_provider="vertex_ai")),
            lines(helicone(GEMINI_ID, 100, 10, 2)),
        ],
    ),
    # https://github.com/BerriAI/litellm/issues/28376
    "an ID that several answers have, in two gateways": (
        [(100, 8), (101, 8), (102, 8)],
        [
            lines(*(spend("chatcmpl-213", 100 + each, 8, 7 * each) for each in range(3))),
            lines(*(helicone("chatcmpl-213", 100 + each, 8, 7 * each + 1) for each in range(3))),
        ],
    ),
    "an ID that several answers have, in a log": (
        [(100, 8), (101, 8), (102, 8), (103, 8)],
        [
            lines(*(exchange("chatcmpl-0", 100 + each, 8, each) for each in range(3))),
            lines(helicone("chatcmpl-0", 103, 8, 3)),
        ],
    ),
    # https://github.com/BerriAI/litellm/issues/17814
    "a response that was read again through a gateway": ([(121, 400)], [lines(*RESPONSES)]),
    "a response that was made in the background": (
        [(121, 400)],
        [lines(spend("resp_A", 0, 0, 0, call_type="aresponses"), *RESPONSES[1:])],
    ),
    "a response that was read again": ([(10, 5)], [lines(answer(0), answer(4), answer(90))]),
    "a stream that sends the usage so far": ([(10, 7)], [lines(*map(part, (1, 3, 7)))]),
    "totals of batches": (
        [(10, 5)],
        [
            lines(
                spend("batch_1", 90_000, 900, 0, call_type="aretrieve_batch"),
                spend("batch_1", 90_000, 900, 9, call_type="retrieve_batch"),
                spend("chatcmpl-A", 10, 5, 3),
            )
        ],
    ),
    # https://github.com/anthropics/claude-code/issues/41607
    "sub-agents that repeat the same requests": (
        [(1_000, 80), (1_100, 70)],
        [
            lines(
                message("msg_A", 1_000, 80, 1, isSidechain=True, agentId=f"a{number}"),
                message("msg_B", 1_100, 70, 5, isSidechain=True, agentId=f"a{number}"),
            )
            for number in range(3)
        ],
    ),
    "equal calls of sub-agents": (
        [*ONCE, *ONCE],
        [lines(message(f"msg_{name}", 1_000, 80, 1, isSidechain=True)) for name in "AB"],
    ),
    "a request that not all lines name": (
        ONCE,
        [lines(message("msg_A", 1_000, 1, 1, requestId=None), message("msg_A", 1_000, 80, 4))],
    ),
    # https://github.com/langfuse/langfuse/issues/14754
    "an agent's observation around its calls": (
        [(100, 10), (200, 20)],
        [
            lines(
                observation("around", 300, 30, None, "AGENT"),
                observation("first", 100, 10, "around"),
                observation("step", 0, 0, "around", "SPAN"),
                observation("second", 200, 20, "step"),
            )
        ],
    ),
    "an agent's observation alone": (
        [(300, 30)],
        [lines(observation("around", 300, 30, None, "AGENT"))],
    ),
    # https://github.com/langfuse/langfuse/issues/7549
    "a generation around another": (
        [(100, 10)],
        [
            lines(observation("inner", 100, 10, "step")),
            lines(observation("step", 0, 0, "outer", "SPAN")),
            lines(observation("outer", 100, 10, None)),
        ],
    ),
    "a call within another's tool": (
        [(100, 10), (700, 7)],
        [lines(observation("outer", 700, 7, None), observation("inner", 100, 10, "outer"))],
    ),
    "spans that are within one another": (
        [(100, 10)],
        [
            lines(
                observation("inner", 100, 10, "a"),
                observation("a", 0, 0, "b", "SPAN"),
                observation("b", 0, 0, "a", "SPAN"),
            )
        ],
    ),
    "a gateway's cache": (
        [(100, 10)],
        [lines(observation("first", 100, 10, None), observation("second", 100, 10, None) | HIT)],
    ),
    # https://github.com/ccusage/ccusage/issues/1780
    "forks of opencode 2": (
        [(100, 10), (110, 11), (120, 12)],
        [
            lines(opencode("a", "ses_1", 100, 10, 0), opencode("b", "ses_1", 110, 11, 5)),
            lines(
                opencode("c", "ses_2", 100, 10, 0),
                opencode("d", "ses_2", 110, 11, 5),
                opencode("e", "ses_2", 120, 12, 9),
                {"id": "ses_2", "cost": 0.3, "tokens_input": 330, "tokens_output": 33},
            ),
        ],
    ),
    "tables that were copied while they were written": (
        [(12_345, 678), (22_345, 679)],
        [TABLE, *(TABLE[:end] for end in range(82, len(TABLE) - 1))],
    ),
}


def found(files: tuple[bytes, ...], scrubber: Scrubber | None = None) -> list[Counts]:
    scrubber = scrubber or Scrubber()
    written = [b"".join(scrubber.add(BytesIO(file))) for file in files]
    calls = map(json.loads, b"".join([*written, *scrubber.close()]).splitlines())
    counts = [
        (call["usage"]["prompt_tokens"], call["usage"]["completion_tokens"]) for call in calls
    ]
    return sorted(counts)


@each_case("case", CASES)
def test_what_came_in_several_ways_counts_once(case: str) -> None:
    wanted, files = CASES[case]
    orders = permutations(files) if len(files) < 4 else (tuple(files), tuple(reversed(files)))
    for order in orders:
        assert found(order) == sorted(wanted)
    assert found((*files, *files)) == sorted(wanted)


@pytest.mark.parametrize("window", [2, 1_000_000])
def test_of_what_does_not_fit_into_memory_copies_are_found_on_disk(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "WINDOW", window)
    log = lines(*(exchange(f"chatcmpl-{number}", 10, 5, number) for number in range(9)))
    same = lines(exchange("chatcmpl-same", 10, 5, 1), exchange("chatcmpl-same", 11, 5, 2))
    rows = lines(*(helicone(f"chatcmpl-{number}", 10, 5, number) for number in range(9)))
    other = lines(helicone("chatcmpl-same", 12, 5, 3), helicone("chatcmpl-none", 13, 5, 3))
    scrubber = Scrubber()
    assert len(found((rows, log, same, other), scrubber)) == 13
    assert scrubber.summary.dropped == {duplicates.DUPLICATE_ROW: 9}


def test_of_two_ways_the_larger_counts_stay_at_the_earlier_time_in_the_agents_session() -> None:
    agent, gateway = message("msg_A", 1_000, 80, 4), spend("msg_A", 1_000, 81, 0)
    for rows in ((agent, gateway), (gateway, agent)):
        scrubber = Scrubber()
        (line,) = b"".join(scrubber.read(BytesIO(lines(*rows)))).splitlines()
        call = json.loads(line)
        assert call["usage"]["completion_tokens"] == 81
        assert call["ts"].startswith("2026-09-21T23:59:57")
        assert call["session_id"] == SESSION
        assert (call["provider"], call["request_id"]) == ("anthropic", "msg_A")
        assert scrubber.summary.dropped == {duplicates.DUPLICATE_ROW: 1}
