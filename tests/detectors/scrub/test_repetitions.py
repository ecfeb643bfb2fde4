"""What logs repeat is counted once, whatever the order of their lines and files."""

import json
from io import BytesIO
from itertools import permutations
from typing import Any

import pytest

from detectors.formats.adapters import duplicates
from detectors.formats.adapters.duplicates import DUPLICATE_ROW, SNAPSHOT
from detectors.scrub.scrubber import Scrubber
from tests.detectors.formats.adapters.source_rows import FORKED, SESSION
from tests.detectors.scrub.raw_logs import CHAT, CHAT_PAIR, CLAUDE_CODE, MESSAGE

Row = dict[str, Any]


def lines(*documents: Any) -> BytesIO:
    return BytesIO(b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def read(*files: list[Row], scrubber: Scrubber | None = None) -> list[Row]:
    scrubber = scrubber or Scrubber()
    written = [b"".join(scrubber.add(lines(*file))) for file in files]
    return [json.loads(line) for line in b"".join([*written, *scrubber.close()]).splitlines()]


def sums(calls: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(
        (call["ts"], call.get("session_id", ""), *map(call["usage"].get, COUNTS)) for call in calls
    )


COUNTS = ("prompt_tokens", "completion_tokens")


def snapshot(number: int, output_tokens: int, second: int, **fields: Any) -> Row:
    usage = MESSAGE["usage"] | {"output_tokens": output_tokens}
    message = MESSAGE | {"id": f"msg_{number}", "usage": usage}
    return (
        CLAUDE_CODE | {"timestamp": f"2026-09-21T14:13:{second:02d}Z", "message": message} | fields
    )


def proxied(minute: int, prompt: int = 1_000, output: int = 100, **fields: Any) -> Row:
    """A message with an ID that a proxy gives to every message, and without a request's ID."""
    usage = {"input_tokens": prompt, "output_tokens": output}
    message = MESSAGE | {"id": "msg_stream", "usage": usage}
    row = CLAUDE_CODE | {"timestamp": f"2026-09-21T14:{minute:02d}:00Z", "message": message}
    return {name: row[name] for name in row if name != "requestId"} | fields


def test_a_message_of_several_snapshots_counts_once_with_its_last_counts_and_first_time() -> None:
    scrubber = Scrubber()
    found = read(
        [snapshot(1, 1, 20), snapshot(2, 1, 21), snapshot(1, 80, 22), snapshot(2, 90, 23),
         snapshot(1, 80, 24)], scrubber=scrubber,
    )  # fmt: skip
    assert [(one["request_id"], one["usage"]["completion_tokens"], one["ts"]) for one in found] == [
        ("msg_1", 80, "2026-09-21T14:13:20Z"),
        ("msg_2", 90, "2026-09-21T14:13:21Z"),
    ]
    assert scrubber.summary.dropped == {SNAPSHOT: 3}


def test_resumed_sessions_and_backups_repeat_no_call() -> None:
    scrubber = Scrubber()
    first = [snapshot(1, 80, 20), snapshot(2, 90, 21)]
    found = read(first, [*first, snapshot(3, 7, 30)], scrubber=scrubber)
    assert [one["request_id"] for one in found] == ["msg_1", "msg_2", "msg_3"]
    assert scrubber.summary.dropped == {DUPLICATE_ROW: 2}
    # Of a backup and the file the complete message stays in any order.
    backup, file = [snapshot(1, 1, 20)], [snapshot(1, 1, 20), snapshot(1, 4_120, 29)]
    for order in permutations([backup, file, backup]):
        assert sums(read(*order)) == [("2026-09-21T14:13:20Z", CLAUDE_CODE["sessionId"], 40, 4_120)]


def test_a_forked_message_stays_in_its_own_session_in_any_order() -> None:
    original = [snapshot(1, 80, 20, sessionId=SESSION)]
    fork = [snapshot(1, 80, 20, sessionId=FORKED), snapshot(2, 90, 40, sessionId=FORKED)]
    named = [
        snapshot(1, 80, 20, sessionId=FORKED, forkedFrom={"sessionId": SESSION}),
        snapshot(2, 90, 40, sessionId=FORKED),
    ]
    wanted = [("2026-09-21T14:13:20Z", SESSION, 40, 80), ("2026-09-21T14:13:40Z", FORKED, 40, 90)]
    for copy in (fork, named):
        assert sums(read(original, copy)) == wanted
        assert sums(read(copy, original)) == wanted
    assert sums(read(named)) == wanted


def test_an_id_that_a_proxy_gives_to_every_message_is_none() -> None:
    """Their prompts differ, or their times are further apart than one message can take."""
    growing = [proxied(minute, 1_000 + minute, 100 + minute) for minute in range(50)]
    found = read(growing)
    assert len(found) == 50
    assert len({call["request_id"] for call in found}) == 50
    assert len(read(growing, growing[:20])) == 50
    assert len(read([proxied(minute) for minute in range(0, 50, 2)])) == 25
    named = [proxied(0, 1_000 + each, requestId=f"req_{each}") for each in range(5)]
    assert len(read(named, named)) == 5


def test_such_a_message_that_is_logged_while_it_grows_counts_once() -> None:
    """Some proxies know the prompt only at the end."""
    rows = [
        proxied(minute, prompt, output, timestamp=f"2026-09-21T14:{minute:02d}:{second:02d}Z")
        for minute in range(20)
        for second, prompt, output in ((0, 0, 0), (1, 1_000 + minute, 1), (9, 1_000 + minute, 80))
    ]
    assert [call["usage"]["completion_tokens"] for call in read(rows)] == [80] * 20
    late = [proxied(0, 0, 0), proxied(1, 1_000, 80)]
    assert sums(read(late)) == [("2026-09-21T14:00:00Z", CLAUDE_CODE["sessionId"], 1_000, 80)]


def test_calls_of_an_id_are_one_and_those_without_are_never() -> None:
    scrubber = Scrubber()
    other_text = json.loads(json.dumps(CHAT_PAIR).replace("bow", "stern"))
    slower, longer = CHAT_PAIR | {"latency_ms": 251}, json.loads(json.dumps(CHAT_PAIR))
    longer["response"]["usage"]["completion_tokens"] += 1
    documents = [CHAT_PAIR, other_text, CHAT_PAIR, slower, longer]
    assert len(read(documents, scrubber=scrubber)) == 2
    assert scrubber.summary.dropped == {DUPLICATE_ROW: 3}
    # Calls without an id are never duplicates.
    response = {key: value for key, value in CHAT.items() if key != "id"}
    document = CHAT_PAIR | {"response": response}
    assert len(read([document, document])) == 2


@pytest.mark.parametrize("window", [7, 1_000_000])
def test_more_identities_than_fit_into_memory_are_on_disk(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duplicates, "WINDOW", window)
    pairs = [json.loads(json.dumps(CHAT_PAIR)) for _ in range(50)]
    for number, pair in enumerate(pairs):
        pair["response"]["id"] = f"chatcmpl-{number}"
    messages = [snapshot(number, 5, number % 60) for number in range(2_500)]
    found = read([*pairs, *messages], [*messages, *reversed(pairs)])
    assert [one["request_id"] for one in found] == [
        *(f"chatcmpl-{number}" for number in range(50)),
        *(f"msg_{number}" for number in range(2_500)),
    ]
