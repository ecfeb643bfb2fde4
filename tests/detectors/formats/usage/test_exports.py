"""Rows of other tools' logs and exports, with the records that are right for them."""

import json
from pathlib import Path

import pytest

from tests.detectors.formats.usage.doors import Case, compared, records_in, scrubbed

ROWS = [
    json.loads(line) for line in Path(__file__).with_name("exports.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case["name"])
def test_a_row_of_an_export_is_read_right(case: Case) -> None:
    log = b"\n".join(json.dumps(row).encode() for row in (*case.get("before", ()), case["row"]))
    out = scrubbed(log)
    assert b"CANARY" not in out
    found = [compared(record) for record in records_in(out)] if out.strip() else []
    assert found == [compared(record) for record in case["records"]]
