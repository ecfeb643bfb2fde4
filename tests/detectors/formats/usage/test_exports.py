"""Rows of other tools' logs and exports, with the records that are right for them."""

import json
from pathlib import Path

import pytest

from detectors.errors import ContractError, UnreadableLogError
from tests.cases import each_case
from tests.detectors.formats.usage.doors import Case, compared, records_in, scrubbed

ROWS = [
    json.loads(line) for line in Path(__file__).with_name("exports.jsonl").read_text().splitlines()
]


def _log(case: Case) -> bytes:
    return b"\n".join(json.dumps(row).encode() for row in (*case.get("before", ()), case["row"]))


@each_case("case", ROWS)
def test_a_row_of_an_export_is_read_right(case: Case) -> None:
    out = scrubbed(_log(case))
    assert b"CANARY" not in out
    found = [compared(record) for record in records_in(out)] if out.strip() else []
    assert found == [compared(record) for record in case["records"]]


@each_case("case", ROWS)
def test_a_row_without_text_is_read_right_as_it_is(case: Case) -> None:
    """A row with text, or with members that may hold some, is refused instead."""
    if case["audit"]:
        found = [compared(record) for record in records_in(_log(case))]
        assert found == [compared(record) for record in case["records"]]
    else:
        with pytest.raises((ContractError, UnreadableLogError)) as refused:
            list(records_in(_log(case)))
        assert "CANARY" not in str(refused.value)
