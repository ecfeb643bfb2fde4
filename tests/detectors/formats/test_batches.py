"""The ingest body: which batches are accepted, and the messages for those that are not."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from detectors.contract import UsageRecord
from detectors.errors import ContractError, MalformedJSONError, TooManyRecordsError
from detectors.formats import decode_batch, encode_records
from detectors.formats.problems import MAX_NAMES
from tests.cases import data_of, each_case
from tests.detectors.formats.stored import decode_records

TABLES = data_of(__file__)
GOOD: dict[str, Any] = {
    "ts": "2026-01-01T00:00:00Z",
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 10,
    "completion_tokens": 2,
}
FULL: dict[str, Any] = GOOD | {
    "cached_tokens": 5,
    "cache_write_tokens": 3,
    "latency_ms": 12.5,
    "endpoint": "/v1/chat/completions",
    "request_id": "req_1",
    "tag": "support",
    "declared_max_tokens": 256,
    "prefix_hash": "0aF" * 21 + "0",
}
CANARY = "CANARY the customer said"


def body(*records: Any, **others: Any) -> bytes:
    return json.dumps({"records": list(records)} | others).encode()


def refusal(raw: bytes) -> str:
    with pytest.raises(ContractError) as caught:
        decode_batch(raw)
    assert "CANARY" not in str(caught.value)
    return str(caught.value)


def test_a_full_record_comes_through_and_null_is_absent() -> None:
    (record,) = decode_batch(body(FULL))
    assert record == UsageRecord(**FULL | {"ts": datetime(2026, 1, 1, tzinfo=UTC)})
    # Null is absent.
    assert decode_batch(body(GOOD | dict.fromkeys(FULL.keys() - GOOD.keys()))) == decode_batch(
        body(GOOD)
    )


@each_case(("text", "expected"), TABLES["times"])
def test_iso_8601_times_are_taken_as_utc(text: str, expected: str) -> None:
    (record,) = decode_batch(body(GOOD | {"ts": text}))
    assert record.ts == datetime.fromisoformat(expected).replace(tzinfo=UTC)
    assert record.ts.tzinfo is UTC


@each_case(
    "text",
    ["2026-366", "2026-000", "2026-01-02T24:00:01Z", "2026-01-02T24:30Z", "2026-01-02T12:59:60Z"],
)
def test_what_only_looks_like_iso_8601_is_refused(text: str) -> None:
    assert "ts must be an ISO 8601 time" in refusal(body(GOOD | {"ts": text}))


def test_nanoseconds_mean_the_same_on_the_fast_and_the_slow_way() -> None:
    nanoseconds = GOOD | {"ts": "2026-01-02T03:04:05.123456789Z"}
    assert (
        decode_batch(body(nanoseconds))[0]
        == decode_batch(body(nanoseconds, GOOD | {"ts": "2026-01-02"}))[0]
    )


WRONG: list[tuple[str, list[Any]]] = TABLES["wrong"]


@each_case(("field", "value"), [(field, value) for field, values in WRONG for value in values])
def test_a_wrong_value_names_index_field_and_what_was_expected(field: str, value: Any) -> None:
    message = refusal(body(FULL, FULL | {field: value}))
    assert message.startswith(f"Record 1: {field} must be ")


@each_case("field", sorted(GOOD))
def test_a_missing_field_is_named(field: str) -> None:
    record = {key: value for key, value in GOOD.items() if key != field}
    assert refusal(body(record)) == f"Record 0: missing field {field}."


def test_every_limit_is_inclusive() -> None:
    limits = {
        "prompt_tokens": 10**12,
        "completion_tokens": 0,
        "latency_ms": 10**9,
        "model": "é" * 200,
        "tag": "",
        "provider": "0" + "a._-" * 15 + "abc",
    }
    assert decode_batch(body(GOOD | limits))[0].prompt_tokens == 10**12


def test_unknown_fields_are_named_and_content_is_never_accepted() -> None:
    record = GOOD | {"messages": [CANARY], "content": CANARY}
    assert refusal(body(GOOD, GOOD, GOOD, record)) == (
        "Contains fields we never accept (messages, content) in record 3: content is never "
        "accepted. Remove them."
    )


@each_case("key", [CANARY, "", "0abc", "a" * 65, "ключ", "a\n", "a b", "$.x"])
def test_a_key_that_does_not_look_like_a_name_is_not_repeated(key: str) -> None:
    message = refusal(body(GOOD | {key: CANARY}))
    assert "fields we never accept (a key that is not a field name) in record 0:" in message


def test_all_problems_of_a_record_are_listed_and_at_most_ten_offenders() -> None:
    message = refusal(body({"model": "m", "prompt_tokens": -1, "prompt": CANARY, "ts": CANARY}))
    assert message == (
        "Contains fields we never accept (prompt) in record 0: content is never accepted. Remove "
        "them. Record 0: missing fields provider, completion_tokens; "
        "ts must be an ISO 8601 time from 2000 to 2100; "
        "prompt_tokens must be an integer from 0 to 1,000,000,000,000."
    )
    # At most ten offenders are named.
    with pytest.raises(ContractError) as caught:
        decode_batch(body(*[GOOD | {"prompt_tokens": -1}] * 14))
    assert len(caught.value.offenders) == 10
    assert str(caught.value).count("prompt_tokens") == 10
    assert str(caught.value).endswith("; and 4 more.")


def unknown(count: int) -> dict[str, int]:
    return {f"k{number}": 1 for number in range(count)}


@each_case("count", [1, 10, 11, 13, 99, 100])
def test_all_unknown_fields_of_a_record_are_named(count: int) -> None:
    message = refusal(body(GOOD, GOOD | unknown(count)))
    assert f"({', '.join(unknown(count))}) in record 1: content" in message


def test_of_more_than_a_hundred_fields_the_message_says_how_many_more() -> None:
    message = refusal(body(GOOD | unknown(MAX_NAMES + 50), GOOD | unknown(7)))
    assert f"({', '.join(unknown(MAX_NAMES))}) in record 0 and 57 more: content" in message
    # Beside a hundred unknown fields all missing and wrong ones are named.
    message = refusal(body(unknown(100) | {"ts": CANARY, "tag": 5, "cached_tokens": -1}))
    assert f"({', '.join(unknown(100))}) in record 0: content" in message
    assert "missing fields provider, model, prompt_tokens, completion_tokens;" in message
    assert all(f"; {name} must be" in message for name in ("ts", "tag", "cached_tokens"))
    # A body of many unknown keys names over a hundred.
    message = refusal(body(GOOD, **unknown(20_000)))
    assert f"k{MAX_NAMES - 1}) in the body and {20_000 - MAX_NAMES:,} more: content" in message
    # A record of very many values is not decoded.
    message = refusal(body(GOOD, GOOD | {"x": [[]] * 100_001}))
    assert "(more than 100,000 values) in record 1: content" in message
    message = refusal(body(GOOD, x=[[]] * 100_001, y=1))
    assert "(more than 100,000 values) in the body: content" in message
    # A very long text is no reason not to name its field.
    message = refusal(body(GOOD | {"content": "a, [b], {c} " * 100_000}))
    assert "(content) in record 0: content" in message
    # Very many records are counted up to a hundred thousand.
    for count, shown in ((99_999, "99,999"), (200_000, "more than 100,000")):
        with pytest.raises(TooManyRecordsError, match=f"^The batch has {shown} records"):
            decode_batch(b'{"records":[1' + b",1" * (count - 1) + b"]}")


@each_case("record", [None, 5, CANARY, [], [CANARY], True])
def test_a_record_that_is_not_an_object_is_rejected(record: Any) -> None:
    assert refusal(body(GOOD, record)) == "Record 1: the record must be an object."


@each_case(
    "document",
    [[], [GOOD], 5, None, CANARY, {}, {"records": None}, {"records": []}, {"records": {}},
     {"records": CANARY}, {"Records": [GOOD]}, GOOD],
)  # fmt: skip
def test_a_body_that_is_not_a_batch_is_rejected(document: Any) -> None:
    assert "non-empty array" in refusal(json.dumps(document).encode())


def test_syntax_decides_before_the_count_and_the_count_before_the_records() -> None:
    message = refusal(body(GOOD, metadata=CANARY, **{CANARY: 1}))
    assert "(metadata, a key that is not a field name) in the body:" in message
    # The count decides before the records do.
    with pytest.raises(TooManyRecordsError) as caught:
        decode_batch(body(*[GOOD] * 5_001))
    assert caught.value.count == 5_001
    for records in ([CANARY] * 5_001, [GOOD | {"content": CANARY}] * 5_001):
        with pytest.raises(TooManyRecordsError, match="^The batch has 5,001 records"):
            decode_batch(body(*records, extra=1))
    assert len(decode_batch(body(*[GOOD] * 5_000))) == 5_000
    # Syntax decides before the count does.
    with pytest.raises(MalformedJSONError):
        decode_batch(body(*[GOOD] * 5_001) + b"}")


def test_the_last_of_duplicate_keys_counts_and_no_other_is_kept() -> None:
    raw = body(GOOD).replace(b'"model": "gpt-5.4"', b'"model": "CANARY", "model": "gpt-5.4"')
    assert b"CANARY" not in encode_records(decode_batch(raw))
    raw = b'{"records": "CANARY", "records": [{"tag": 1}], ' + body(FULL)[1:]
    assert encode_records(decode_batch(raw)) == encode_records(decode_batch(body(FULL)))


def test_a_full_batch_is_decoded_and_encoded_in_twice_the_time_that_json_takes_to_read() -> None:
    """It takes two thirds of it: 6 ms, where the standard library only decodes in 9 ms."""
    raw = body(*[FULL | {"request_id": f"req_{n}"} for n in range(5_000)])
    ours, theirs = list[float](), list[float]()
    for _ in range(10):
        ours.append(_seconds(lambda: encode_records(decode_batch(raw))))
        theirs.append(_seconds(lambda: json.loads(raw)))
    assert len(decode_records(encode_records(decode_batch(raw)))) == 5_000
    assert min(ours) <= 2 * min(theirs)


def _seconds(work: Callable[[], object]) -> float:
    started_at = time.process_time()
    work()
    return time.process_time() - started_at
