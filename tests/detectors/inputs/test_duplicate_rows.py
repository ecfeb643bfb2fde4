"""Duplicate rows: a call that is logged twice counts once, whatever library its frame is of."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import detectors
from detectors.contract import UsageRecord
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS, as_polars
from tests.worker.support.promises import sampled

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
CALL: dict[str, Any] = {
    "ts": FIRST,
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 10,
    "completion_tokens": 2,
}
NAMED = CALL | {"request_id": "req_1"}


def _counts(rows: list[Mapping[str, Any]], library: str) -> tuple[int, int]:
    """The calls that are left, and the number of duplicate rows."""
    given = {name: None for row in rows for name in row}
    frame = as_polars([UsageRecord(**row) for row in rows]).select(*given)
    audit = detectors.audit(INPUTS[library](frame)).audit
    return audit.records, audit.echoes_dropped


@pytest.mark.parametrize("library", LOCAL_INPUTS)
def test_duplicate_rows_are_dropped_and_counted(library: str) -> None:
    other = NAMED | {"request_id": "req_2"}
    assert _counts([NAMED, other, NAMED, CALL, NAMED, other], library) == (3, 3)


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 3))
def test_calls_that_differ_in_any_field_are_not_duplicates(library: str) -> None:
    others: list[dict[str, Any]] = [
        {"latency_ms": 1.0}, {"tag": "a"}, {"endpoint": "a"}, {"prompt_tokens": 11},
        {"declared_max_tokens": 1}, {"ts": FIRST + timedelta(microseconds=1)},
        {"prefix_hash": "a" * 64}, {"provider": "azure"}, {"cached_tokens": 1},
    ]  # fmt: skip
    assert _counts([NAMED, *[NAMED | other for other in others]], library) == (10, 0)


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 3))
def test_calls_without_a_request_id_are_not_duplicates(library: str) -> None:
    assert _counts([CALL, CALL, CALL | {"request_id": ""}], library) == (3, 0)


@pytest.mark.parametrize("library", sampled(LOCAL_INPUTS, 3))
def test_duplicates_in_another_notation_are_still_duplicates(library: str) -> None:
    assert _counts([NAMED, NAMED | {"tag": "", "cached_tokens": 0}], library) == (1, 1)
