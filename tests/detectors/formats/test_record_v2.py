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
    STORED_FIELDS,
    UNITS,
    UsageRecord,
    UsageRecordV2,
)
from detectors.errors import ContractError
from detectors.formats import (
    V2,
    Chunk,
    decode_batch,
    encode_chunk,
    encode_records,
    read_chunks,
    read_stored,
    records_of,
)
from detectors.formats.columns import OF_SOURCE, OPTIONAL_COLUMNS, TABLE_FIELDS, columns_of
from detectors.formats.fields import RECORD, RECORD_V2
from detectors.formats.records.items import read_items
from tests.cases import data_of, each_case
from tests.detectors.formats.stored import decode_records
from tests.detectors.formats.test_batches import CANARY, FULL, GOOD, body

TABLES = data_of(__file__)

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
    "units": {"code_executions": 5, "audio_seconds": 2.5},
    "reported_usd": 0.25,
    "prefix_hashes": [FULL["prefix_hash"][:16].lower(), "2" * 16],
    "billing": "included",
}
FULL_V2: dict[str, Any] = FULL | NEW
IN_COLUMNS: dict[str, Any] = {
    **{name: value for name, value in NEW.items() if name != "units"},
    **NEW["units"],
    "prefix_hashes": "".join(NEW["prefix_hashes"]),
}
TOO_MUCH: list[tuple[dict[str, Any], str]] = TABLES["parts_over_their_total"]


def refusal(*records: Any) -> str:
    with pytest.raises(ContractError) as caught:
        decode_batch(body(*records), V2)
    assert "CANARY" not in str(caught.value)
    return str(caught.value)


def in_table(record: dict[str, Any]) -> dict[str, Any]:
    """Return the cells of a record in a table, which has a column for each unit."""
    rest = {name: value for name, value in record.items() if name != "units"}
    if "prefix_hashes" in record:
        rest["prefix_hashes"] = " ".join(record["prefix_hashes"])
    units: dict[str, Any] = record.get("units", {})
    return rest | units


def as_csv(*records: dict[str, Any]) -> bytes:
    table, rows = StringIO(), list(map(in_table, records))
    writer = csv.DictWriter(
        table, sorted({*in_table(FULL_V2), *(name for row in rows for name in row)})
    )
    writer.writeheader()
    writer.writerows(rows)
    return table.getvalue().encode()


def read(text: bytes) -> Chunk:
    [chunk] = read_chunks(BytesIO(text))
    return chunk


def test_every_field_has_one_definition() -> None:
    assert (*RECORD_FIELDS, *NEW) == RECORD_V2_FIELDS == tuple(RECORD_V2)
    tables = (NEW.keys() - {"units"}) | set(UNITS)
    assert {"service_tier", *OPTIONAL_COLUMNS} == tables | set(OF_SOURCE)
    assert {*RECORD_FIELDS, *tables} == set(TABLE_FIELDS)
    assert all(field.text and field.kind for field in STORED_FIELDS if field.name not in OF_SOURCE)
    assert tuple(RECORD) == RECORD_FIELDS
    # A full record comes through a batch.
    (record,) = decode_batch(body(FULL_V2), V2)
    assert isinstance(record, UsageRecordV2)
    for name, value in NEW.items():
        assert getattr(record, name) == value
    # A record of the first version is one of the second.
    first, second = decode_batch(body(FULL, GOOD)), decode_batch(body(FULL, GOOD), V2)
    assert encode_records(first) == encode_records(second)
    assert columns_of(first) == columns_of(second)


@each_case("name", NEW)
def test_the_first_version_knows_none_of_the_new_fields(name: str) -> None:
    with pytest.raises(ContractError, match=f"never accept \\({name}\\) in record 0"):
        decode_batch(body(GOOD | {name: NEW[name]}))


def test_text_breaks_the_second_version_too() -> None:
    assert "never accept (messages)" in refusal(FULL_V2 | {"messages": [CANARY]})


@each_case(("values", "reason"), TOO_MUCH)
def test_a_part_over_its_total_is_refused(values: dict[str, Any], reason: str) -> None:
    record = FULL_V2 | values
    assert reason in refusal(record)
    assert [row.reason for row in read(as_csv(FULL_V2, record)).invalid] == [reason]
    [chunk] = read_items([FULL_V2, record])
    assert [row.reason for row in chunk.invalid] == [reason]


def test_a_part_without_its_total_is_refused() -> None:
    assert "at most cache_write_tokens" in refusal(GOOD | {"cache_write_1h_tokens": 1})


@each_case(("name", "value", "expected"), TABLES["bad_values"])
def test_a_bad_value_is_named(name: str, value: object, expected: str) -> None:
    field, _, unit = name.partition(".")
    record = FULL_V2 | {field: {unit: value} if unit else value}
    reason = f"{name} must be {expected}".lower()
    assert reason in refusal(record).lower()
    [chunk] = read_items([FULL_V2, record])
    assert field == "service_tier" or reason in chunk.invalid[0].reason.lower()


@each_case("key", ["messages", "requests", f"a {CANARY}", "é"])
def test_an_unknown_unit_breaks_the_contract(key: str) -> None:
    """No text can be a key: in a batch, in lines of every kind, and in Python objects."""
    record = GOOD | {"units": {key: 1}}
    named = f"units.{key}" if key.isascii() and " " not in key else "a key that is not a field name"
    assert f"never accept ({named}" in refusal(record)
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    chat = {"created": 1790000000, "model": "m", "usage": usage, "units": {key: 1}}
    wrapped = {"response": {"model": "m", "usage": usage}, "ts": GOOD["ts"], "units": {key: 1}}
    for line in (record, chat, wrapped):
        with pytest.raises(ContractError, match="never accept") as caught:
            read(json.dumps(line).encode())
        assert "CANARY" not in str(caught.value)
    with pytest.raises(ContractError, match="never accept") as caught:
        list(read_items([record]))
    assert "CANARY" not in str(caught.value)


def test_other_lines_have_the_records_own_fields_too() -> None:
    names = ("units", "reported_usd", "prefix_hashes", "billing")
    own = {name: NEW[name] for name in names}
    body = {"model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    # The time of the second is read apart from the others.
    for more in ({"ts": GOOD["ts"]}, {"ts": "20260101T000000"}):
        for line in (body | own | more, {"response": body} | own | more):
            chunk = read(json.dumps(line).encode())
            assert [chunk.columns[name][0] for name in ("code_executions", "audio_seconds")] == [
                5,
                2.5,
            ]
            assert chunk.columns["prefix_hashes"] == [IN_COLUMNS["prefix_hashes"]]
            assert (chunk.columns["reported_usd"], chunk.columns["billing"]) == (
                [0.25],
                ["included"],
            )


def test_a_unit_of_zero_is_absent_and_a_reported_cost_of_zero_is_not() -> None:
    (record,) = decode_batch(body(GOOD | {"units": {"code_executions": 0}, "reported_usd": 0}), V2)
    assert json.loads(encode_records([record])) == GOOD | {"reported_usd": 0}
    columns = columns_of([record])
    assert columns["reported_usd"] == [0]
    assert "code_executions" not in columns
    (empty,) = decode_batch(body(GOOD | {"units": {}}), V2)
    assert json.loads(encode_records([empty])) == GOOD


@each_case("status", STATUSES)
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


def test_a_tier_is_the_standard_one_by_default() -> None:
    named, unnamed = (
        encode_records(decode_batch(body(GOOD | tier), V2))
        for tier in ({"service_tier": "standard"}, {})
    )
    assert named == unnamed
    # Names of other tiers are the standard tier in files.
    records = [GOOD | {"service_tier": name} for name in ("default", "standard", "flex")]
    [items] = read_items(records)
    for chunk in (read(as_csv(*records)), items):
        assert chunk.columns["service_tier"] == ["", "", "flex"]


def test_csv_has_every_field_in_either_way_of_reading() -> None:
    plain, odd = read(as_csv(FULL_V2)), read(as_csv(FULL_V2, FULL_V2 | {"tag": 'a "quote"'}))
    for chunk in (plain, odd):
        assert {name: chunk.columns[name][0] for name in IN_COLUMNS} == IN_COLUMNS
    assert plain.columns == columns_of(decode_batch(body(FULL_V2), V2))


def test_columns_without_a_value_do_not_exist() -> None:
    chunk = read(as_csv(GOOD, GOOD | {"reasoning_tokens": 0, "status": ""}))
    assert not set(OPTIONAL_COLUMNS) & chunk.columns.keys()


def test_rows_of_both_versions_keep_their_order_and_absent_values() -> None:
    # A row with an unusual time is read apart from the others.
    records = [GOOD | {"web_searches": 1}, FULL_V2 | {"ts": "20260101T000000"}, GOOD]
    [chunk] = read_items(records)
    assert chunk.columns["web_searches"] == [1, 7, 0]
    assert chunk.columns["region"] == ["", "eu", ""]
    assert read(as_csv(*records)).columns == chunk.columns
    # Records of both versions mix.
    at = decode_batch(body(FULL))[0].ts
    first = UsageRecord(**FULL | {"ts": at})
    second = UsageRecordV2(**FULL_V2 | {"ts": at})
    assert columns_of([first, second])["web_searches"] == [0, 7]
    [chunk] = read_items([first, second])
    assert chunk.columns == columns_of([first, second])


def test_good_levels_are_not_read_call_by_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit of many calls with levels would take three times as long."""

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("detectors.formats.checks.read_record", refuse)
    monkeypatch.setattr("detectors.formats.records.batches.read_record", refuse)
    record = GOOD | {name: NEW[name] for name in ("prefix_hash_64k", "prefix_hashes")}
    [chunk] = read_chunks(BytesIO(json.dumps(record).encode()))
    assert chunk.columns["prefix_hashes"] == [IN_COLUMNS["prefix_hashes"]]
    assert decode_batch(body(record), V2)[0].prefix_hashes == NEW["prefix_hashes"]  # type: ignore[attr-defined]
