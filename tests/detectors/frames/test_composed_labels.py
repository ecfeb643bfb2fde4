"""A label is the same whichever way its accents were written, by every door."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path
from unicodedata import normalize

import polars as pl
import pytest

import detectors
from detectors.contract import UsageRecord
from detectors.formats import read_chunks
from detectors.frames import from_chunks, read_log
from detectors.report.account.call_files import IMPORT, merge_files, read_calls
from tests.detectors.inputs.frames import INPUTS, LOCAL_INPUTS, SPARK_UNDER_STRESS, as_polars

COMPOSED = "caf\u00e9 \u1ed9"
DECOMPOSED = normalize("NFD", COMPOSED)
RECORDS = [
    UsageRecord(
        ts=datetime(2026, 1, 1, minute=number, tzinfo=UTC),
        provider="openai",
        model="gpt-4o",
        prompt_tokens=1_000,
        completion_tokens=0,
        tag=(COMPOSED, DECOMPOSED, "plain")[number % 3],
    )
    for number in range(6)
]


def _json(*, is_escaped: bool) -> Callable[[], object]:
    lines = [
        json.dumps(
            {
                "created": int(record.ts.timestamp()),
                "model": record.model,
                "tag": record.tag,
                "usage": {"prompt_tokens": 1_000, "completion_tokens": 0},
            },
            ensure_ascii=is_escaped,
        )
        for record in RECORDS
    ]
    return lambda: BytesIO("\n".join(lines * 1_000).encode())


def _csv() -> BytesIO:
    rows = [f"{r.ts.isoformat()},openai,gpt-4o,1000,0,{r.tag}" for r in RECORDS]
    header = "ts,provider,model,prompt_tokens,completion_tokens,tag"
    return BytesIO("\n".join([header, *rows]).encode())


def _categories() -> object:
    return as_polars(RECORDS).with_columns(pl.col("tag").cast(pl.Categorical()))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: RECORDS, id="records"),
        pytest.param(_csv, id="CSV"),
        pytest.param(_json(is_escaped=False), id="JSON Lines"),
        pytest.param(_json(is_escaped=True), id="escapes"),
        pytest.param(_categories, id="categories"),
    ],
)
def test_both_forms_of_a_tag_are_one_route(make: Callable[[], object]) -> None:
    _check(detectors.audit(make()))


@pytest.mark.parametrize("library", [*LOCAL_INPUTS, SPARK_UNDER_STRESS[-1]])
def test_both_forms_of_a_tag_are_one_route_in_a_callers_frame(library: str) -> None:
    _check(detectors.audit(INPUTS[library](as_polars(RECORDS))))


def _check(report: detectors.Report) -> None:
    routes = {each.route: each.calls for each in report.spend_by_route}
    share = report.audit.records // 6
    assert routes == {COMPOSED: 4 * share, "plain": 2 * share}


def test_stored_calls_of_an_earlier_release_are_read_in_one_form(tmp_path: Path) -> None:
    log = from_chunks(read_chunks(_csv()))
    assert log.frame["tag"].unique().sort().to_list() == [COMPOSED, "plain"]
    earlier = log.frame.with_columns(pl.Series("tag", [r.tag for r in RECORDS]))
    file = tmp_path / "calls.parquet"
    earlier.write_parquet(
        file,
        metadata={"tallystick.invalid_rows": json.dumps({"count": 0, "reasons": {}, "first": []})},
    )
    for frame in (read_log(file).frame, read_calls(file, "import")):
        assert frame["tag"].unique().sort().to_list() == [COMPOSED, "plain"]
    calls = [read_calls(file, "import"), log.frame.with_columns(pl.lit("later").alias(IMPORT))]
    (merged,) = merge_files(calls, months_before=date(2000, 1, 1))
    assert merged.frame["tag"].n_unique() == 2
