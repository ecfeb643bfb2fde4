"""The canonical form: what goes in comes out, in UTC, without what is absent."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.contract import MAX_COUNT, MAX_LATENCY_MS, UsageRecord
from detectors.errors import UnreadableLogError
from detectors.formats import decode_batch, decode_records, encode_records
from detectors.formats.columns import columns_of, find_unclean_rows, records_of
from detectors.formats.fields import EPOCH, FIRST_MICROSECOND, LAST_MICROSECOND, MICROSECOND

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


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=5))
def test_records_come_back_as_they_were(records: list[UsageRecord]) -> None:
    assert decode_records(encode_records(records)) == records


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=5))
def test_a_batch_of_canonical_records_is_the_same_records(records: list[UsageRecord]) -> None:
    lines = encode_records(records).splitlines()
    assert decode_batch(b'{"records":[' + b",".join(lines) + b"]}") == records


@settings(deadline=None)
@given(st.lists(RECORDS, max_size=5))
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


RECORD = UsageRecord(
    ts=datetime(2026, 1, 1, tzinfo=UTC),
    provider="openai",
    model="gpt-5.4",
    prompt_tokens=1,
    completion_tokens=2,
)


def test_what_is_absent_is_left_out() -> None:
    assert encode_records([RECORD]) == (
        b'{"ts":"2026-01-01T00:00:00Z","provider":"openai","model":"gpt-5.4",'
        b'"prompt_tokens":1,"completion_tokens":2}\n'
    )


@pytest.mark.parametrize(
    "ts",
    [datetime(2026, 1, 1), datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))],  # noqa: DTZ001
)
def test_other_times_are_brought_to_utc(ts: datetime) -> None:
    assert encode_records([msgspec.structs.replace(RECORD, ts=ts)]) == encode_records([RECORD])


@pytest.mark.parametrize(
    "blob",
    [b"CANARY", b"{}", b"[]", encode_records([RECORD])[:-5], b'{"content":"CANARY"}', b"\xff"],
)
def test_nothing_else_is_read_as_canonical(blob: bytes) -> None:
    with pytest.raises(UnreadableLogError) as caught:
        decode_records(blob)
    assert "CANARY" not in str(caught.value)
