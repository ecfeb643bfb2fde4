"""The same audit whatever type the times of a frame have, and whatever types pandas gave it."""

from collections.abc import Callable
from datetime import UTC
from functools import cache
from io import StringIO
from typing import Any, Final

import polars as pl
import pytest

import detectors
from detectors.frames import read
from tests.detectors.inputs.frames import (
    EVERY_INPUT,
    INPUTS,
    LOCAL_INPUTS,
    SPARK_UNDER_STRESS,
    as_polars,
)
from tests.detectors.reference.builders import answers, capped, hashed, series, unhashed
from tests.lazily import pd

TS: Final = pl.col("ts")
KINDS: Final[dict[str, pl.Expr]] = {
    "text": TS.dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ"),
    "text without a zone": TS.dt.to_string("%Y-%m-%d %H:%M:%S%.6f"),
    "text with slashes": TS.dt.to_string("%Y/%m/%d %H:%M:%S%.6f UTC"),
    "text with an offset": TS.dt.to_string("%Y-%m-%d %H:%M:%S%.6f +0000"),
    "naive": TS.dt.replace_time_zone(None),
    "aware": TS,
    "aware elsewhere": TS.dt.convert_time_zone("America/New_York"),
    "microseconds": TS.dt.epoch("us"),
    "nanoseconds": TS.dt.epoch("ns"),
    "text of microseconds": TS.dt.epoch("us").cast(pl.String),
}
# A text, an instant without and one with a zone, and a number: nulls differ by type, not by format.
NULLABLE: Final = {"text", "naive", "aware", "microseconds"}
MISSING: Final = "missing field ts"


@cache
def _frame() -> pl.DataFrame:
    """Return calls with findings, in the columns that have values; times have microseconds."""
    records = [
        *hashed(30, 20.123456),
        *unhashed([3_000] * 25),
        *answers([20] * 12, tag="short"),
        *capped(100, [100] * 8 + [20] * 10),
        *series([1.5] * 12, tag="again", request_id="r"),
    ]
    frame = as_polars(records)
    return frame.select(column for column in frame if column.null_count() < frame.height)


@cache
def _expected() -> bytes:
    return detectors.audit(_frame()).to_json()


@cache
def _rows() -> pl.DataFrame:
    return read(_frame()).frame


def _sorted(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("ts", "prompt_tokens", "tag", "request_id", "declared_max_tokens")


# Each type in two libraries and each library with every other type; the others under stress.
@pytest.mark.parametrize(
    ("library", "kind"),
    [
        pytest.param(library, kind, marks=[pytest.mark.stress] if (number + turn) % 2 else [])
        for number, library in enumerate(LOCAL_INPUTS)
        for turn, kind in enumerate(KINDS)
    ],
)
def test_times_of_every_type_are_read_alike(library: str, kind: str) -> None:
    frame = _frame().with_columns(KINDS[kind].alias("ts"))
    assert _sorted(read(INPUTS[library](frame)).frame).equals(_sorted(_rows()))


@pytest.mark.stress
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", EVERY_INPUT)
def test_times_of_every_type_give_the_same_report(library: str, kind: str) -> None:
    frame = _frame().with_columns(KINDS[kind].alias("ts"))
    assert detectors.audit(INPUTS[library](frame)).to_json() == _expected()


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[] if kind in NULLABLE else pytest.mark.stress) for kind in KINDS],
)
@pytest.mark.parametrize("library", LOCAL_INPUTS)
def test_a_missing_time_makes_the_row_invalid(library: str, kind: str) -> None:
    row = pl.int_range(pl.len())
    frame = _frame().with_columns(pl.when(row != 3).then(KINDS[kind]).alias("ts"))
    log = read(INPUTS[library](frame))
    assert log.invalid.reasons == {MISSING: 1}


@pytest.mark.parametrize("library", SPARK_UNDER_STRESS)
def test_texts_of_times_are_read_alike(library: str) -> None:
    texts = [
        "1767225600", "1767225600123", "1767225600123456", "1767225600123456789",
        "2026/01/02 03:04:05", "2026-01-02 03:04:05 UTC", "2026-01-02T03:04:05GMT",
        "2026-01-02 03:04:05.5 +0100", "2026-01-02 03:04:05 -05:00",
        "2026-01-02 03:04:05 +0000 UTC",
        "17672256001", "01/02/2026", "soon", "9999999999", "99999999999999999999", "946684799",
    ]  # fmt: skip
    rows = [{"ts": text, "prompt_tokens": n} for n, text in enumerate(texts)]
    call = {"provider": "openai", "model": "gpt-5.4", "completion_tokens": 1}
    frame = pl.DataFrame([call | row for row in rows])
    found = read(INPUTS[library](frame)).frame.sort("prompt_tokens")
    expected = read([call | row for row in rows]).frame
    assert expected["prompt_tokens"].to_list() == list(range(10))
    assert found.equals(expected)


Make = Callable[[str], Any]
FROM_CSV: Final[dict[str, Make]] = {
    "read_csv": lambda text: pd.read_csv(StringIO(text)),
    "convert_dtypes": lambda text: pd.read_csv(StringIO(text)).convert_dtypes(),
    "nullable": lambda text: pd.read_csv(StringIO(text), dtype_backend="numpy_nullable"),
    "pyarrow": lambda text: pd.read_csv(StringIO(text), dtype_backend="pyarrow"),
    "pyarrow dates": lambda text: pd.read_csv(
        StringIO(text), dtype_backend="pyarrow", parse_dates=["ts"]
    ),
    "parse_dates": lambda text: pd.read_csv(StringIO(text), parse_dates=["ts"]),
    "objects": lambda text: pd.read_csv(StringIO(text), dtype=object).astype(
        dict.fromkeys(("prompt_tokens", "completion_tokens"), int)
    ),
    "gapped index": lambda text: pd.read_csv(StringIO(text)).sample(frac=1, random_state=1),
    "repeated index": lambda text: (
        pd.read_csv(StringIO(text), index_col="ts")
        .reset_index(drop=False)
        .set_axis([0] * _frame().height)
    ),
    "gapped nullable": lambda text: pd.read_csv(StringIO(text)).convert_dtypes()[::-1],
    "gapped pyarrow": lambda text: pd.read_csv(StringIO(text), dtype_backend="pyarrow")[::-1],
    "categories": lambda text: pd.read_csv(StringIO(text)).astype({"model": "category"}),
}


def _from_csv(made: str) -> tuple[Any, pl.DataFrame]:
    """Return the frame that is made of a CSV file, and the calls that the file has."""
    objects = {"declared_max_tokens"} if made == "objects" else set()
    given = _frame().drop(objects)
    text = given.with_columns(TS.dt.to_string("%Y-%m-%dT%H:%M:%S%.6fZ")).write_csv()
    return FROM_CSV[made](text), given


@pytest.mark.parametrize("made", FROM_CSV)
def test_a_frame_from_a_csv_is_the_same_log(made: str) -> None:
    frame, given = _from_csv(made)
    assert _sorted(read(frame).frame).equals(_sorted(read(given).frame))


# Windows fail on nullable types, so an audit of those runs always.
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(made, marks=[] if made == "gapped nullable" else pytest.mark.stress)
        for made in FROM_CSV
    ],
)
def test_a_frame_from_a_csv_gives_the_same_report(made: str) -> None:
    frame, given = _from_csv(made)
    assert detectors.audit(frame).to_json() == detectors.audit(given).to_json()


def test_a_naive_time_is_in_utc() -> None:
    assert _frame()["ts"][0].tzinfo is not None
    naive = _frame().with_columns(TS.dt.replace_time_zone(None)).to_pandas()
    assert read(naive).frame["ts"][0] == _frame()["ts"][0].astimezone(UTC)
