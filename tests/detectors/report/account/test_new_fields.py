"""Units, reported costs, hashes by level and billing in the files of an account's calls."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
from msgspec.structs import replace

from detectors import PriceBook, Thresholds, audit, read
from detectors.contract import CallWindow, Finding
from detectors.report.account.call_files import merge_files, read_calls, write_calls
from detectors.report.account.imports import Terms
from detectors.report.account.windows import audit_window
from tests.detectors.formats.test_record_v2 import IN_COLUMNS, NEW
from tests.detectors.reference.traffic import draw_ladders

FIRST = datetime(2026, 11, 2, tzinfo=UTC)
PLAIN: dict[str, Any] = {
    "ts": FIRST,
    "provider": "openai",
    "model": "gpt-5.4",
    "prompt_tokens": 100_000,
    "completion_tokens": 1_000,
    "request_id": "chatcmpl-1",
}
FIELDS = {name: NEW[name] for name in ("units", "reported_usd", "prefix_hashes")}
COLUMNS = (*NEW["units"], *FIELDS.keys() - {"units"})


def _stored(rows: list[dict[str, Any]], name: str) -> pl.DataFrame:
    file = BytesIO()
    write_calls(read(rows).frame, file)
    return read_calls(BytesIO(file.getvalue()), name)


def test_they_are_merged_and_audited_with_calls_that_lack_them(tmp_path: Path) -> None:
    """The copy with more labels stays, and a window compares the reported costs."""
    others = [PLAIN | {"ts": FIRST + timedelta(hours=1), "request_id": "chatcmpl-2"}]
    frames = [_stored([PLAIN], "one"), _stored([PLAIN | FIELDS], "two"), _stored(others, "three")]
    [merged] = merge_files(frames, months_before=date(2026, 11, 1))
    assert (merged.frame.height, merged.duplicates) == (2, 1)
    assert {name: merged.frame[name][0] for name in COLUMNS} == {
        name: IN_COLUMNS[name] for name in COLUMNS
    }
    path = tmp_path / "merged.parquet"
    with path.open("wb") as file:
        write_calls(merged.frame, file)
    assert pl.read_parquet_schema(path)["prefix_hashes"] == pl.Binary
    window = CallWindow(days=30, now=datetime(2100, 1, 1, tzinfo=UTC))
    terms = Terms(PriceBook(), None, Thresholds())
    quality = audit_window([path], window, terms).report.data_quality
    assert quality is not None
    assert quality.reported_costs
    assert quality.reported_costs.calls == 1


def test_an_account_is_audited_by_every_level_of_hashes(tmp_path: Path) -> None:
    calls = [replace(record, request_id=None) for record in draw_ladders(503)]
    path = tmp_path / "calls.parquet"
    with path.open("wb") as file:
        write_calls(read(calls).frame, file)
    window = CallWindow(days=4_000, now=datetime(2100, 1, 1, tzinfo=UTC))
    terms = Terms(PriceBook(), None, Thresholds(floor_usd=0))
    found = audit_window([path], window, terms).report.findings
    wanted = audit(calls, thresholds=Thresholds(floor_usd=0)).findings
    assert {each.kind for each in wanted} >= {"uncached_prefix"}
    assert _dollars(found) == _dollars(wanted)


def _dollars(findings: Iterable[Finding]) -> dict[tuple[str, ...], Decimal]:
    return {
        (each.detector, each.kind, each.route, each.model): each.observed_cost_impact_usd
        for each in findings
    }
