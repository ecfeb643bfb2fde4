"""The second version of the record: its fields in batches, files, records and the stored form."""

import csv
import json
from io import BytesIO, StringIO
from typing import Any

import pytest

from detectors.contract import (
    RECORD_FIELDS,
    RECORD_V2_FIELDS,
    STATUSES,
    UsageRecord,
    UsageRecordV2,
)
from detectors.errors import ContractError
from detectors.formats import (
    V2,
    Chunk,
    decode_batch,
    decode_records,
    encode_chunk,
    encode_records,
    read_chunks,
    read_stored,
    records_of,
)
from detectors.formats.columns import ASSUMED, OPTIONAL_COLUMNS, columns_of
from detectors.formats.fields import RECORD, RECORD_V2
from detectors.formats.records.items import read_items
from tests.detectors.formats.test_batches import CANARY, FULL, GOOD, body

NEW: dict[str, Any] = {
    "service_tier": "batch",
    "cache_write_1h_tokens": 3,
    "reasoning_tokens": 2,
    "audio_prompt_tokens": 4,
    "audio_completion_tokens": 1,
    "image_prompt_tokens": 6,
    "image_completion_tokens": 1,
    "web_searches": 7,
    "prefix_hash_16k": "a" * 64,
    "prefix_hash_64k": "b" * 64,
    "environment": "production",
    "session_id": "chat-1",
    "status": "cancelled",
    "region": "eu",
}
FULL_V2: dict[str, Any] = FULL | NEW
TOO_MUCH: list[tuple[dict[str, int], str]] = [
    ({"cache_write_1h_tokens": 4}, "cache_write_1h_tokens must be at most cache_write_tokens"),
    ({"reasoning_tokens": 3}, "reasoning_tokens must be at most completion_tokens"),
    (
        {"audio_prompt_tokens": 11, "image_prompt_tokens": 0},
        "audio_prompt_tokens must be at most prompt_tokens",
    ),
    (
        {"image_prompt_tokens": 7},
        "image_prompt_tokens must be at most prompt_tokens less audio_prompt_tokens",
    ),
    (
        {"audio_completion_tokens": 3, "image_completion_tokens": 0},
        "audio_completion_tokens must be at most completion_tokens",
    ),
    (
        {"image_completion_tokens": 2},
        "image_completion_tokens must be at most completion_tokens less audio_completion_tokens",
    ),
]


def refusal(*records: Any) -> str:
    with pytest.raises(ContractError) as caught:
        decode_batch(body(*records), V2)
    assert "CANARY" not in str(caught.value)
    return str(caught.value)


def as_csv(*records: dict[str, Any]) -> bytes:
    table = StringIO()
    writer = csv.DictWriter(table, sorted(FULL_V2))
    writer.writeheader()
    writer.writerows(records)
    return table.getvalue().encode()


def read(text: bytes) -> Chunk:
    [chunk] = read_chunks(BytesIO(text))
    return chunk


def test_every_field_has_one_definition() -> None:
    assert (*RECORD_FIELDS, *NEW) == RECORD_V2_FIELDS == tuple(RECORD_V2)
    assert {"service_tier", *OPTIONAL_COLUMNS} == NEW.keys() | {ASSUMED}
    assert tuple(RECORD) == RECORD_FIELDS


def test_a_full_record_comes_through_a_batch() -> None:
    (record,) = decode_batch(body(FULL_V2), V2)
    assert isinstance(record, UsageRecordV2)
    for name, value in NEW.items():
        assert getattr(record, name) == value


def test_a_record_of_the_first_version_is_one_of_the_second() -> None:
    first, second = decode_batch(body(FULL, GOOD)), decode_batch(body(FULL, GOOD), V2)
    assert encode_records(first) == encode_records(second)
    assert columns_of(first) == columns_of(second)


@pytest.mark.parametrize("name", NEW)
def test_the_first_version_knows_none_of_the_new_fields(name: str) -> None:
    with pytest.raises(ContractError, match=f"never accept \\({name}\\) in record 0"):
        decode_batch(body(GOOD | {name: NEW[name]}))


def test_text_breaks_the_second_version_too() -> None:
    assert "never accept (messages)" in refusal(FULL_V2 | {"messages": [CANARY]})


@pytest.mark.parametrize(("values", "reason"), TOO_MUCH)
def test_a_part_over_its_total_is_refused(values: dict[str, int], reason: str) -> None:
    record = FULL_V2 | values
    assert reason in refusal(record)
    assert [row.reason for row in read(as_csv(FULL_V2, record)).invalid] == [reason]
    [chunk] = read_items([FULL_V2, record])
    assert [row.reason for row in chunk.invalid] == [reason]


def test_a_part_without_its_total_is_refused() -> None:
    assert "at most cache_write_tokens" in refusal(GOOD | {"cache_write_1h_tokens": 1})


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("status", f"{CANARY}", "one of ok, error, cancelled"),
        ("service_tier", "gold", "one of standard, batch, flex, priority, fast"),
        ("web_searches", -1, "an integer from 0 to 1000000000000"),
        ("prefix_hash_16k", "z" * 64, "64 hexadecimal digits"),
        ("prefix_hash_64k", "z" * 64, "64 hexadecimal digits"),
        ("session_id", "a\nb", "a string of at most 200 characters without control characters"),
        ("environment", "e" * 201, "a string of at most 200 characters without control"),
        ("region", "\x80", "a string of at most 200 characters without control characters"),
    ],
)
def test_a_bad_value_is_named(name: str, value: object, expected: str) -> None:
    assert f"{name} must be {expected}".lower() in refusal(FULL_V2 | {name: value}).lower()


@pytest.mark.parametrize("status", STATUSES)
def test_every_status_is_kept(status: str) -> None:
    (record,) = decode_batch(body(GOOD | {"status": status}), V2)
    assert getattr(record, "status", None) == status


def test_the_stored_form_has_every_field() -> None:
    records = decode_batch(body(GOOD, FULL_V2, FULL), V2)
    stored = encode_records(records)
    assert json.loads(stored.splitlines()[1]) == FULL_V2
    assert encode_records(decode_records(stored)) == stored
    [chunk] = read_stored(BytesIO(stored))
    assert encode_chunk(chunk) == stored
    assert encode_records(records_of(chunk.columns)) == stored


def test_the_standard_tier_is_the_default() -> None:
    named, unnamed = (
        encode_records(decode_batch(body(GOOD | tier), V2))
        for tier in ({"service_tier": "standard"}, {})
    )
    assert named == unnamed


def test_csv_has_every_field_in_either_way_of_reading() -> None:
    plain, odd = read(as_csv(FULL_V2)), read(as_csv(FULL_V2, FULL_V2 | {"tag": 'a "quote"'}))
    for chunk in (plain, odd):
        assert {name: chunk.columns[name][0] for name in NEW} == NEW
    assert plain.columns == columns_of(decode_batch(body(FULL_V2), V2))


def test_names_of_other_tiers_are_the_standard_tier_in_files() -> None:
    records = [GOOD | {"service_tier": name} for name in ("default", "standard", "flex")]
    [items] = read_items(records)
    for chunk in (read(as_csv(*records)), items):
        assert chunk.columns["service_tier"] == ["", "", "flex"]


def test_columns_without_a_value_do_not_exist() -> None:
    chunk = read(as_csv(GOOD, GOOD | {"reasoning_tokens": 0, "status": ""}))
    assert not set(OPTIONAL_COLUMNS) & chunk.columns.keys()


def test_rows_that_are_read_apart_keep_their_order_and_their_absent_values() -> None:
    """A row with an unusual time is read apart from the others."""
    records = [GOOD | {"web_searches": 1}, FULL_V2 | {"ts": "20260101T000000"}, GOOD]
    [chunk] = read_items(records)
    assert chunk.columns["web_searches"] == [1, 7, 0]
    assert chunk.columns["region"] == ["", "eu", ""]
    assert read(as_csv(*records)).columns == chunk.columns


def test_records_of_both_versions_mix() -> None:
    at = decode_batch(body(FULL))[0].ts
    first = UsageRecord(**FULL | {"ts": at})
    second = UsageRecordV2(**FULL_V2 | {"ts": at})
    assert columns_of([first, second])["web_searches"] == [0, 7]
    [chunk] = read_items([first, second])
    assert chunk.columns == columns_of([first, second])
