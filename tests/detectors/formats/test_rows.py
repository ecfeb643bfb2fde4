"""Rows of JSON logs: which values make them invalid, and which unusual ones are taken."""

import json
import tracemalloc
from io import BytesIO
from typing import Any

from detectors.contract import InvalidRow, UsageRecord
from detectors.formats import read_chunks, records_of
from tests.cases import data_of, each_case

TABLES = data_of(__file__)

CHAT: dict[str, Any] = {
    "created": 1_767_225_600,
    "model": "gpt-5.4",
    "usage": {"prompt_tokens": 10, "completion_tokens": 2},
}
MESSAGE: dict[str, Any] = {
    "ts": 1_767_225_600,
    "type": "message",
    "model": "claude-opus-4-8",
    "usage": {"input_tokens": 10, "output_tokens": 2},
}
CANARY = "CANARY"


def read_log(*lines: Any) -> tuple[list[UsageRecord], list[InvalidRow]]:
    log = b"\n".join(
        line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
    )
    chunks = list(read_chunks(BytesIO(log)))
    return (
        [record for chunk in chunks for record in records_of(chunk.columns)],
        [row for chunk in chunks for row in chunk.invalid],
    )


@each_case(("members", "reason"), TABLES["bad_values"])
def test_a_bad_value_makes_the_row_invalid_with_its_reason(
    members: dict[str, Any], reason: str
) -> None:
    records, invalid = read_log(CHAT, CHAT | members, CHAT)
    assert invalid == [InvalidRow(2, reason)]
    assert len(records) == 2


@each_case(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b'{"model":"gpt', "not JSON"),
        (b"CANARY", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"NaN", "not JSON"),
        (json.dumps(CHAT).encode() * 2, "not JSON"),
        (b'"CANARY"', "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b"5", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"1e999", "not a JSON object"),
        (b"9" * 5_000, "not a JSON object"),
    ],
)
def test_a_line_that_is_not_an_object_is_an_invalid_row(line: bytes, reason: str) -> None:
    records, invalid = read_log(CHAT, line, CHAT)
    assert invalid == [InvalidRow(2, reason)]
    assert len(records) == 2


def test_one_object_on_two_lines_is_two_invalid_rows() -> None:
    first, second = json.dumps(CHAT).split(", ", 1)
    records, invalid = read_log(CHAT, f"{first},\n{second}".encode(), CHAT)
    assert [row.line for row in invalid] == [2, 3]
    assert len(records) == 2


@each_case("members", TABLES["notations"])
def test_the_same_call_in_another_notation_gives_the_same_result(members: dict[str, Any]) -> None:
    records, invalid = read_log(CHAT, CHAT | members)
    assert not invalid
    assert records[0] == records[1]


def test_odd_notations_and_blank_lines_change_no_row() -> None:
    lines = [CHAT | {"tag": str(n), "ts": "20260101" if n % 3 else None} for n in range(20)]
    lines[7] = {"request": None, "response": CHAT, "tag": "7"}
    lines[8] = {"response": CHAT, "tag": "8", "ts": "20260101"}
    records, _ = read_log(*lines)
    assert [record.tag for record in records] == [str(n) for n in range(20)]
    # Blank lines are no rows but count as lines.
    records, invalid = read_log(b"", CHAT, b"  ", b"\r", CHAT, b"x", b"", b"")
    assert len(records) == 2
    assert invalid == [InvalidRow(6, "not JSON")]


def test_blank_lines_take_little_memory() -> None:
    log = json.dumps(CHAT).encode() + b"\n" * (1 << 16)
    tracemalloc.start()
    try:
        rows = sum(chunk.rows for chunk in read_chunks(BytesIO(log), chunk_bytes=1 << 16))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert rows == 1
    assert peak < 3_000_000


def test_anthropic_counts_add_up() -> None:
    usage = {
        "input_tokens": 3,
        "output_tokens": 1,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 7,
        "cache_creation": {"ephemeral_5m_input_tokens": 100},
    }
    ((record,), _) = read_log(MESSAGE | {"usage": usage})
    assert (record.prompt_tokens, record.cached_tokens, record.cache_write_tokens) == (15, 5, 7)


@each_case(
    "usage",
    [
        {"input_tokens": 10**12, "output_tokens": 1, "cache_read_input_tokens": 1},
        {"input_tokens": 0, "output_tokens": 1,
         "cache_creation": {"ephemeral_5m_input_tokens": 10**12, "ephemeral_1h_input_tokens": 1}},
    ],
)  # fmt: skip
def test_a_sum_beyond_what_a_count_may_be_is_invalid(usage: dict[str, Any]) -> None:
    records, (row,) = read_log(MESSAGE, MESSAGE | {"usage": usage})
    assert len(records) == 1
    assert row.line == 2
    assert "the sum of usage" in row.reason


def test_every_other_row_may_be_wrong() -> None:
    lines = [CHAT | {"tag": str(n)} if n % 2 else {"model": CANARY} for n in range(1_000)]
    records, invalid = read_log(*lines)
    assert [row.line for row in invalid] == list(range(1, 1_001, 2))
    assert [record.tag for record in records] == [str(n) for n in range(1, 1_000, 2)]
