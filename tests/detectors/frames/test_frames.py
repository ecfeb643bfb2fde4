"""Logs into frames of calls: every kind of source, duplicate rows, and the Parquet that is kept."""

import gzip
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from detectors import UsageRecord
from detectors.errors import ContractError, UnreadableLogError
from detectors.formats import decode_batch, encode_records, read_chunks
from detectors.frames import CALLS, from_chunks, read, read_log, write_log
from tests.cases import each_case

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
CALL: dict[str, Any] = {
    "ts": FIRST,
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 10,
    "completion_tokens": 2,
}
CSV = b"ts,provider,model,prompt_tokens,completion_tokens\n2026-01-01,openai,gpt-5.4,10,2\n"


def calls(count: int, **members: Any) -> list[UsageRecord]:
    return [
        UsageRecord(**CALL | {"ts": FIRST + timedelta(seconds=n)} | members) for n in range(count)
    ]


def test_the_schema_is_the_one_agreed() -> None:
    frame = read(calls(3)).frame
    assert frame.schema == CALLS
    assert frame.drop("latency_ms").null_count().sum_horizontal().item() == 0


def test_a_path_a_file_and_an_iterable_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_bytes(CSV)
    expected = read([CALL])
    assert read(path).frame.equals(expected.frame)
    assert read(str(path)).frame.equals(expected.frame)
    assert read(BytesIO(CSV)).frame.equals(expected.frame)
    assert read(BytesIO(gzip.compress(CSV))).frame.equals(expected.frame)
    assert read(iter([UsageRecord(**CALL)])).frame.equals(expected.frame)
    # Progress counts bytes.
    path = tmp_path / "usage.csv"
    path.write_bytes(CSV)
    heard: list[tuple[int, int]] = []
    read(path, progress=lambda done, size: heard.append((done, size)))
    assert heard[-1] == (len(CSV), len(CSV))


def test_absent_values_and_the_case_of_a_hash_are_the_same() -> None:
    empty = {"tag": "", "cached_tokens": 0, "prefix_hash": None, "latency_ms": None}
    assert read([CALL]).frame.equals(read([CALL | empty]).frame)
    # A prefix hash is the same in either case.
    records = [*calls(1, prefix_hash="AB" * 32), *calls(1, prefix_hash="ab" * 32)]
    assert read(records).frame["prefix_hash"].to_list() == ["ab" * 32] * 2
    table = pl.DataFrame([CALL | {"prefix_hash": "AB" * 32}])
    assert read(table).frame["prefix_hash"].to_list() == ["ab" * 32]


def test_dicts_may_hold_what_python_holds() -> None:
    same = [
        CALL | {"ts": "2026-01-01"},
        CALL | {"ts": FIRST.timestamp()},
        CALL | {"ts": datetime(2026, 1, 1)},  # noqa: DTZ001
        CALL | {"latency_ms": float("nan")},
    ]
    for item in same:
        assert read([item, CALL | {"ts": "20260101"}]).frame[0].equals(read([CALL]).frame)
        assert read([item]).frame.equals(read([CALL]).frame)


def test_a_file_open_as_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_bytes(CSV)
    with path.open() as file, pytest.raises(UnreadableLogError, match="binary mode"):
        read(file)


class Unhelpful:
    def __repr__(self) -> str:
        raise ValueError("CANARY")


@each_case(
    "members",
    [
        {"prompt_tokens": -1},
        {"prompt_tokens": 10**30},
        {"prompt_tokens": "10"},
        {"prompt_tokens": None},
        {"ts": datetime(1999, 1, 1, tzinfo=UTC)},
        {"ts": Unhelpful()},
        {"tag": "a\nb"},
        {"tag": "\ud800"},
        {"tag": b"CANARY"},
        {"latency_ms": float("inf")},
        {"provider": "Open AI"},
    ],
)
def test_bad_items_are_invalid_rows_and_the_others_stay(members: dict[str, Any]) -> None:
    good = CALL | {"prompt_tokens": 3}
    for item in (CALL | members, UsageRecord(**CALL | members)):
        log = read([good, item, good])
        assert (log.rows, log.invalid.count, log.frame.height) == (3, 1, 2)
        assert [row.line for row in log.invalid.first] == [2]
        assert "CANARY" not in log.invalid.first[0].reason


def test_an_unknown_key_of_a_dict_breaks_the_contract() -> None:
    with pytest.raises(
        ContractError, match=r"never accept \(content, a key that is not a field name\) in row 2:"
    ):
        read([CALL, CALL | {"content": "CANARY", "CANARY the customer": 1}])


@each_case("items", [["CANARY"], [5], [None], ["text", "text"]])
def test_other_items_are_unreadable(items: list[Any]) -> None:
    with pytest.raises(UnreadableLogError, match="Pass an iterable of UsageRecord"):
        read(items)


@each_case("source", [None, 5])
def test_a_source_of_another_type_is_a_type_error(source: Any) -> None:
    with pytest.raises(TypeError, match="expected a path, an open binary file"):
        read(source)


def test_many_or_no_items_are_read_in_their_order() -> None:
    records = calls(120_000)
    log = read(records)
    assert log.rows == 120_000
    assert log.frame["ts"].is_sorted()
    # Nothing is a log of no rows.
    log = read([])
    assert (log.rows, log.valid_pct, log.frame.schema) == (0, 0.0, CALLS)


def test_invalid_rows_are_counted_by_reason_and_the_first_hundred_listed() -> None:
    bad = [CALL | {"prompt_tokens": -1}] * 150 + [CALL | {"model": ""}] * 50
    log = read([CALL, *bad])
    assert log.valid_pct == pytest.approx(100 / 201)
    assert list(log.invalid.reasons.values()) == [150, 50]
    assert [row.line for row in log.invalid.first] == list(range(2, 102))
    reason = "prompt_tokens must be an integer from 0 to 1,000,000,000,000"
    assert log.invalid.main_reason == f"{reason} (first on line 2)"
    assert msgspec.structs.replace(log.invalid, first=()).main_reason == reason
    assert read([CALL]).invalid.main_reason == ""


def test_batches_make_the_same_frame_as_their_file() -> None:
    records = calls(5, tag="a")
    assert read(decode_batch(b'{"records":[%s]}' % encode_records(records).replace(b"}\n{", b"},{"))
                ).frame.equals(read(records).frame)  # fmt: skip
    assert from_chunks(read_chunks(BytesIO(CSV))).frame.equals(read([CALL]).frame)


def test_parquet_comes_back_and_is_the_same_bytes_every_time(tmp_path: Path) -> None:
    log = read([*calls(1_000, tag="a", latency_ms=1.5), CALL | {"model": ""}])
    parts = replace(log, frame=pl.concat([log.frame[:300], log.frame[300:]]))
    first, second = BytesIO(), BytesIO()
    write_log(log, first)
    write_log(parts, second)
    assert first.getvalue() == second.getvalue()
    path = tmp_path / "calls.parquet"
    with path.open("wb") as file:
        write_log(log, file)
    for source in (path, BytesIO(path.read_bytes())):
        found = read_log(source)
        assert found.frame.equals(log.frame)
        assert (found.rows, found.invalid) == (1_001, log.invalid)


def test_other_files_are_not_frames_of_calls(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pl.DataFrame({"content": ["CANARY"]}).write_parquet(path)
    silent, sly = BytesIO(), BytesIO()
    read([CALL]).frame.write_parquet(silent)
    write_log(replace(read([CALL]), frame=pl.DataFrame({"content": ["CANARY"]})), sly)
    others = (path, tmp_path / "missing.parquet", BytesIO(b"CANARY"), BytesIO(b""), silent, sly)
    for source in others:
        with pytest.raises(UnreadableLogError) as caught:
            read_log(source)
        assert "CANARY" not in str(caught.value)


def test_a_frame_kept_before_tiers_were_known_is_of_the_standard_tier(tmp_path: Path) -> None:
    log, file = read(calls(3)), tmp_path / "calls.parquet"
    write_log(log, file)
    metadata = {
        "tallystick.invalid_rows": pl.read_parquet_metadata(file)["tallystick.invalid_rows"]
    }
    log.frame.drop("service_tier").write_parquet(file, metadata=metadata)
    assert read_log(file).frame.equals(log.frame)
