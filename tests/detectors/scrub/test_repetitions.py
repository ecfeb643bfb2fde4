"""What a log repeats is counted once, within a window of a stated size."""

import json
from io import BytesIO
from typing import Any

from detectors.formats.adapters.duplicates import DUPLICATE_ROW, SNAPSHOT, WINDOW, DuplicateRows
from detectors.scrub.scrubber import Scrubber
from tests.detectors.scrub.raw_logs import CHAT, CHAT_PAIR, CLAUDE_CODE, MESSAGE


def lines(*documents: Any) -> BytesIO:
    return BytesIO(b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def read(scrubber: Scrubber, *documents: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(scrubber.read(lines(*documents))).splitlines()]


def snapshot(number: int, output_tokens: int, second: int) -> dict[str, Any]:
    usage = MESSAGE["usage"] | {"output_tokens": output_tokens}
    message = MESSAGE | {"id": f"msg_{number}", "usage": usage}
    return CLAUDE_CODE | {"timestamp": f"2026-09-21T14:13:{second:02d}Z", "message": message}


def test_a_message_of_several_snapshots_counts_once_with_its_last_counts_and_first_time() -> None:
    scrubber = Scrubber()
    found = read(
        scrubber, snapshot(1, 1, 20), snapshot(2, 1, 21), snapshot(1, 80, 22), snapshot(2, 90, 23),
        snapshot(1, 80, 24),
    )  # fmt: skip
    assert [(one["request_id"], one["usage"]["completion_tokens"], one["ts"]) for one in found] == [
        ("msg_1", 80, "2026-09-21T14:13:20Z"),
        ("msg_2", 90, "2026-09-21T14:13:21Z"),
    ]
    assert scrubber.summary.dropped == {SNAPSHOT: 3}


def test_a_resumed_session_repeats_no_call() -> None:
    scrubber = Scrubber()
    assert len(read(scrubber, snapshot(1, 80, 20), snapshot(2, 90, 21))) == 2
    found = read(scrubber, snapshot(1, 80, 20), snapshot(2, 90, 21), snapshot(3, 7, 30))
    assert [one["request_id"] for one in found] == ["msg_3"]
    assert scrubber.summary.dropped == {DUPLICATE_ROW: 2}


def test_thousands_of_open_messages_are_all_written() -> None:
    found = read(Scrubber(), *(snapshot(number, 5, number % 60) for number in range(2_500)))
    assert [one["request_id"] for one in found] == [f"msg_{number}" for number in range(2_500)]


def test_calls_equal_in_every_field_are_one_and_others_are_not() -> None:
    scrubber = Scrubber()
    other_text = json.loads(json.dumps(CHAT_PAIR).replace("bow", "stern"))
    slower = CHAT_PAIR | {"latency_ms": 251}
    assert len(read(scrubber, CHAT_PAIR, other_text, CHAT_PAIR, slower)) == 2
    assert scrubber.summary.dropped == {DUPLICATE_ROW: 2}


def test_calls_without_an_id_are_never_duplicates() -> None:
    response = {key: value for key, value in CHAT.items() if key != "id"}
    document = CHAT_PAIR | {"response": response}
    assert len(read(Scrubber(), document, document)) == 2


def test_a_duplicate_is_found_within_the_window_and_forgotten_after_two() -> None:
    echoes = DuplicateRows(window=100)
    keys = [str(number) for number in range(1_000)]
    for number, key in enumerate(keys):
        assert echoes.is_new(key)
        assert not echoes.is_new(keys[max(0, number - 99)])
    assert echoes.is_new(keys[0])
    assert WINDOW >= 500_000
