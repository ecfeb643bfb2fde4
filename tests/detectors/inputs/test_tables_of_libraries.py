"""Frames of other libraries as they come: types of pandas, streams, and what is no frame."""

import sys
from collections.abc import Callable
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import detectors
from detectors.errors import UnreadableLogError
from detectors.formats.moments import EPOCH, MICROSECOND, read_moment
from detectors.frames.inputs import MissingEngineError, UnknownEngineError
from tests.detectors.inputs.frames import ARROW_INPUTS, INPUTS, LOCAL_INPUTS, as_polars
from tests.detectors.reference.traffic import draw_log
from tests.lazily import duckdb, pd
from tests.worker.support.promises import sampled

CALL = {"provider": "openai", "model": "gpt-5.4", "completion_tokens": 1}
FRAME = as_polars(draw_log(9)[:50])

TEXTS = [
    "2026-01-01", "2026-01-01T10:00", "2026-01-01 10:00:00", "2026-01-01T10:00:00Z",
    "2026-01-01t10:00:00z", "2026-01-01T10:00:00+01:00", "2026-01-01T10:00:00-0830",
    "2026-01-01T10:00:00+05", "2026-01-01T10:00:00.5", "2026-01-01T10:00:00,25Z",
    "2026-01-01T10:00:00.1234565Z", "2026-01-01T10:00:00.123456489-01:00",
    "2026-02-30", "2026-01-01T24:00", "2026-01-01T10:60", "2026-01-01T10:00:60", "soon", "",
    "2026-01-01T10:00:00+24:00", "2026-13-01", "1999-12-31", "2100-01-01", "2026-01-01T",
]  # fmt: skip


@pytest.mark.parametrize("library", [*LOCAL_INPUTS, *ARROW_INPUTS])
def test_texts_of_times_are_read_as_in_every_log(library: str) -> None:
    rows = [CALL | {"ts": text, "prompt_tokens": number} for number, text in enumerate(TEXTS)]
    log = detectors.read(INPUTS[library](pl.DataFrame(rows)))
    found = dict(log.frame.select("prompt_tokens", pl.col("ts").dt.timestamp("us")).iter_rows())
    expected = {number: at for number, text in enumerate(TEXTS) if (at := _at_us(text)) is not None}
    assert len(expected) == 13
    assert found == expected
    assert log.invalid.count == len(TEXTS) - len(expected)
    assert all("ts must be" in reason or "field ts" in reason for reason in log.invalid.reasons)
    wrong = [number for number in range(len(TEXTS)) if number not in expected]
    assert [row.line for row in log.invalid.first] == [number + 1 for number in wrong]


def _at_us(text: str) -> int | None:
    try:
        return (read_moment(text) - EPOCH) // MICROSECOND
    except ValueError:
        return None


def _of_objects(**columns: list[Any]) -> Any:
    rows = len(next(iter(columns.values())))
    usual = {name: [value] * rows for name, value in (CALL | {"ts": "2026-01-01"}).items()}
    return pd.DataFrame(
        {name: pd.Series(each, dtype=object) for name, each in (usual | columns).items()}
    )


def test_python_objects_of_pandas_are_checked_by_their_type() -> None:
    frame = _of_objects(
        prompt_tokens=[1, None, 3], completion_tokens=[1, 2, 3], tag=[None, "a", "b"]
    )
    log = detectors.read(frame)
    assert log.frame.height == 2
    assert log.invalid.reasons == {"missing field prompt_tokens": 1}
    assert [row.line for row in log.invalid.first] == [2]


@pytest.mark.parametrize(
    ("prompts", "invalid"),
    [
        ([Decimal(1), Decimal("1.5"), Decimal(3)], 1),
        ([1.0, 2.0, float("nan")], 1),
        ([1, "2", 3], 3),  # no type has all of them
        ([object()] * 3, 3),
        ([True, False, True], 3),
    ],
)
def test_objects_of_pandas_have_the_type_of_all_values(prompts: list[Any], invalid: int) -> None:
    log = detectors.read(_of_objects(prompt_tokens=prompts))
    assert (log.rows, log.invalid.count) == (3, invalid)
    (reason,) = log.invalid.reasons
    assert "prompt_tokens" in reason


def test_missing_objects_of_pandas_have_no_type() -> None:
    test_objects_of_pandas_have_the_type_of_all_values([None, pd.NA, float("nan")], 3)


def test_hashes_of_pandas_may_be_lists_arrays_and_bytes_beside_missing_ones() -> None:
    levels = ["5" * 16, "6" * 16]
    lists = _of_objects(prompt_tokens=[1, 2, 3], prefix_hashes=[levels, None, []])
    stored = _of_objects(
        prompt_tokens=[1, 2, 3], prefix_hashes=[bytes.fromhex("".join(levels)), None, b""]
    )
    arrays = lists.assign(
        prefix_hashes=[None if each is None else pd.array(each) for each in lists.prefix_hashes]
    )
    for frame in (lists, stored, arrays):
        log = detectors.read(frame)
        assert log.invalid.count == 0
        assert log.frame["prefix_hashes"].to_list() == ["".join(levels), "", ""]


def test_the_index_of_a_frame_is_no_column() -> None:
    frame = FRAME.to_pandas()
    named = frame.set_index(pd.Index(range(7, 57), name="CANARY"))
    expected = detectors.audit(FRAME).to_json()
    for each in (
        named,
        frame.set_index([named.index, named.index]),
        type("Own", (type(frame),), {})(frame),
    ):
        assert detectors.audit(each).to_json() == expected
    with pytest.raises(UnreadableLogError, match="Missing: ts"):
        detectors.audit(frame.set_index("ts"))


@pytest.mark.parametrize("library", sampled([*LOCAL_INPUTS, *ARROW_INPUTS], 3))
def test_a_frame_without_rows_is_an_empty_log(library: str) -> None:
    frame = FRAME.clear()
    log = detectors.read(INPUTS[library](frame))
    assert (log.rows, log.frame.height) == (0, 0)
    assert detectors.audit(INPUTS[library](frame)).audit.records == 0


def test_columns_need_different_names() -> None:
    doubled = FRAME.to_pandas()
    doubled.columns = [*doubled.columns[:-1], "model"]
    table = pa.table([pa.array([1]), pa.array([1])], names=["model", "model"])
    relation = duckdb.sql("SELECT 'a' AS model, 'b' AS model")
    for frame in (doubled, table, table.to_reader(), relation):
        with pytest.raises(UnreadableLogError, match="needs a different name"):
            detectors.audit(frame)


def test_a_column_without_a_text_for_its_name_breaks_the_contract() -> None:
    frame = FRAME.to_pandas().rename(columns={"tag": 7, "endpoint": ("a", "b")})
    with pytest.raises(detectors.ContractError, match=r"column \d"):
        detectors.audit(frame)


def _stream(frame: pl.DataFrame) -> Any:
    """What only speaks Arrow, such as a table of Ibis."""
    return SimpleNamespace(__arrow_c_stream__=frame.__arrow_c_stream__)


@pytest.mark.parametrize(
    "make", [_stream, lambda frame: frame.to_arrow().to_reader(), INPUTS["duckdb"]]
)
def test_a_stream_is_read_a_part_at_a_time_and_once(make: Callable[[pl.DataFrame], Any]) -> None:
    from detectors.frames.inputs import find_table

    scanned = find_table(make(FRAME))
    assert scanned is not None
    assert scanned.select("model").head(3).collect().equals(FRAME.select("model").head(3))
    with pytest.raises(Exception, match="only once"):
        scanned.collect()


def test_what_is_no_frame_is_refused_with_what_to_do() -> None:
    values = pl.Series([1]), pa.array([1]), pa.chunked_array([[1]]), duckdb.connect(), 7
    for value in (*values, pd.Series([1])):
        with pytest.raises(TypeError, match="expected a"):
            detectors.audit(value)
    # Frames that speak no arrow are refused with what to do.
    kind = type("DataFrame", (), {"__module__": "dask.dataframe", "columns": ["ts"]})
    with pytest.raises(UnknownEngineError, match="not of dask. Convert it to one of pandas"):
        detectors.audit(kind())


@pytest.mark.parametrize("library", ["pandas", "duckdb"])
def test_without_arrow_its_package_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = INPUTS[library](FRAME)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingEngineError, match=f"Frames of {library}.*pip install pyarrow"):
        detectors.audit(frame)
