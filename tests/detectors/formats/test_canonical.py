"""The canonical form: what goes in comes out, in UTC, without what is absent."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO

import msgspec
import pytest
from hypothesis import strategies as st

from detectors.contract import MAX_COUNT, MAX_LATENCY_MS, InvalidRow, UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import Chunk, decode_batch, encode_chunk, encode_records, read_stored
from detectors.formats.checks import find_unclean_rows
from detectors.formats.columns import columns_of, records_of
from detectors.formats.moments import EPOCH, FIRST_MICROSECOND, LAST_MICROSECOND, MICROSECOND
from detectors.frames.usage_log import InvalidTally
from tests.cases import each_case
from tests.detectors.formats.stored import decode_records
from tests.exploration import explored

COUNTS = st.integers(0, MAX_COUNT)
LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=200)
MICROSECONDS = st.integers(FIRST_MICROSECOND, LAST_MICROSECOND - 1)
INSTANTS = MICROSECONDS.map(lambda microseconds: EPOCH + microseconds * MICROSECOND)
RECORDS = st.builds(
    UsageRecord,
    ts=INSTANTS,
    provider=st.from_regex(r"[a-z0-9][a-z0-9._-]{0,63}", fullmatch=True),
    model=LABELS.filter(bool),
    prompt_tokens=COUNTS,
    completion_tokens=COUNTS,
    cached_tokens=st.none() | COUNTS,
    cache_write_tokens=st.none() | COUNTS,
    latency_ms=st.none() | st.floats(0, MAX_LATENCY_MS),
    endpoint=st.none() | LABELS,
    request_id=st.none() | LABELS,
    tag=st.none() | LABELS,
    declared_max_tokens=st.none() | COUNTS,
    prefix_hash=st.none() | st.text("0123456789abcdefABCDEF", min_size=64, max_size=64),
)


@explored(100, st.lists(RECORDS, max_size=5))
def test_records_come_back_as_they_were(records: list[UsageRecord]) -> None:
    assert decode_records(encode_records(records)) == records


@explored(100, st.lists(RECORDS, min_size=1, max_size=5))
def test_a_batch_of_canonical_records_is_the_same_records(records: list[UsageRecord]) -> None:
    lines = encode_records(records).splitlines()
    assert decode_batch(b'{"records":[' + b",".join(lines) + b"]}") == records


@explored(100, st.lists(RECORDS, max_size=5))
def test_columns_hold_all_but_what_is_empty(records: list[UsageRecord]) -> None:
    columns = columns_of(records)
    assert not find_unclean_rows(columns, may_hold_control_characters=True)
    kept = [
        msgspec.structs.replace(
            record,
            **{
                name: getattr(record, name) or None
                for name in record.__struct_fields__
                if name not in ("ts", "latency_ms", "prompt_tokens", "completion_tokens")
            },
        )
        for record in records
    ]
    assert records_of(columns) == kept


INVALID = st.lists(st.builds(InvalidRow, line=st.integers(1, 10**9), reason=LABELS), max_size=3)
CHUNKS = st.lists(
    st.builds(Chunk, st.lists(RECORDS, max_size=3).map(columns_of), INVALID), max_size=4
)


@explored(100, CHUNKS)
def test_a_chunk_is_stored_as_its_records_and_then_its_invalid_rows(chunks: list[Chunk]) -> None:
    for chunk in chunks:
        invalid = msgspec.json.Encoder().encode_lines(chunk.invalid)
        assert encode_chunk(chunk) == encode_records(records_of(chunk.columns)) + invalid


@explored(100, CHUNKS, st.integers(1, 2_000))
def test_chunks_come_back_as_they_were_however_they_are_cut(
    chunks: list[Chunk], chunk_bytes: int
) -> None:
    blob = BytesIO(b"".join(map(encode_chunk, chunks)))
    assert _joined(read_stored(blob, chunk_bytes=chunk_bytes)) == _joined(chunks)


def _joined(chunks: Iterable[Chunk]) -> tuple[bytes, list[InvalidRow], int]:
    records, invalid, rows = b"", list[InvalidRow](), 0
    for chunk in chunks:
        records += encode_records(records_of(chunk.columns))
        invalid += chunk.invalid
        rows += chunk.rows
    return records, invalid, rows


def test_absent_fields_are_omitted_and_no_label_imitates_an_invalid_row() -> None:
    sly = msgspec.structs.replace(RECORD, tag='{"line":1,"reason":"x"}', model='"}\n{"line":1}')
    tally = InvalidTally()
    for chunk in read_stored(BytesIO(encode_records([sly]))):
        tally.add(chunk.invalid)
        assert records_of(chunk.columns) == [sly]
    assert tally.summary().count == 0
    # Absent fields are omitted.
    assert encode_records([RECORD]) == (
        b'{"ts":"2026-01-01T00:00:00Z","provider":"openai","model":"gpt-5.4",'
        b'"prompt_tokens":1,"completion_tokens":2}\n'
    )


RECORD = UsageRecord(
    ts=datetime(2026, 1, 1, tzinfo=UTC),
    provider="openai",
    model="gpt-5.4",
    prompt_tokens=1,
    completion_tokens=2,
)


@each_case(
    "ts",
    [datetime(2026, 1, 1), datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))],  # noqa: DTZ001
)
def test_other_times_are_converted_to_utc(ts: datetime) -> None:
    assert encode_records([msgspec.structs.replace(RECORD, ts=ts)]) == encode_records([RECORD])


@each_case(
    "blob",
    [b"CANARY", b"{}", b"[]", encode_records([RECORD])[:-5], b'{"content":"CANARY"}', b"\xff"],
)
def test_nothing_else_is_read_as_canonical(blob: bytes) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        list(read_stored(BytesIO(blob)))
    assert "CANARY" not in str(caught.value)


@each_case("line", [b'{"line":1}', b'{"line":"CANARY","reason":""}', b'{"line":'])
def test_nothing_else_is_read_as_an_invalid_row(line: bytes) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        list(read_stored(BytesIO(encode_records([RECORD]) + line + b"\n")))
    assert "CANARY" not in str(caught.value)


def test_every_instant_is_written_to_the_microsecond() -> None:
    draw = random.Random(7).randrange
    instants = [draw(FIRST_MICROSECOND, LAST_MICROSECOND) for _ in range(100_000)]
    instants += [FIRST_MICROSECOND, FIRST_MICROSECOND + 1, LAST_MICROSECOND - 1]
    records = [
        UsageRecord(
            ts=EPOCH + instant * MICROSECOND,
            provider="openai",
            model="m",
            prompt_tokens=1,
            completion_tokens=1,
        )
        for instant in instants
    ]
    assert encode_chunk(Chunk(columns_of(records), [])) == encode_records(records)


def test_rows_that_are_no_calls_are_lines_that_the_previous_release_reads_as_invalid() -> None:
    chunk = Chunk(columns_of([RECORD]), [InvalidRow(3, "no")], dropped={"failed": 12})
    blob = encode_chunk(chunk)
    (again,) = read_stored(BytesIO(blob))
    assert (again.invalid, again.dropped) == (chunk.invalid, chunk.dropped)
    lines = [line for line in blob.splitlines() if line.startswith(b'{"line":')]
    assert [msgspec.json.decode(line, type=InvalidRow) for line in lines] == [
        InvalidRow(3, "no"),
        InvalidRow(0, "failed"),
    ]
