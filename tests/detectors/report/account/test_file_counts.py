"""Counts in the metadata of stored files, and audits that add them up."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import detectors
from detectors.contract import AuditedWindow, CallWindow
from detectors.formats.columns import UNKNOWN, UNKNOWN_LARGEST
from detectors.report.account import call_files, stored_calls, windows
from detectors.report.account.file_counts import FileCounts
from detectors.report.account.imports import Terms
from tests.detectors.inputs.frames import as_polars
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

TERMS = Terms(detectors.PriceBook(), None, detectors.Thresholds())
DAYS = 4_000
CUT = 25  # has four days with calls


@pytest.fixture(scope="module")
def calls() -> pl.DataFrame:
    frame = detectors.read(as_polars(draw_log(106))).frame.unique(maintain_order=True).sort("ts")
    unknown = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("unknown")).otherwise("model")
    number = pl.int_range(pl.len())
    names = pl.when(number % 7 == 0).then(pl.lit("a_tokens")).when(number % 11 == 0)
    return frame.with_columns(
        unknown.alias("model"),
        pl.lit("import-1").alias(call_files.IMPORT),
        names.then(pl.lit("b_tokens c_tokens")).alias(UNKNOWN),
        number.cast(pl.Int64).alias(UNKNOWN_LARGEST),
    )


def _store(frames: list[pl.DataFrame], folder: Path, few: int) -> list[Path]:
    """Write files of calls; those with more than so `few` calls have counts."""
    files = [folder / f"{number}.parquet" for number in range(len(frames))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_files, "FEW_CALLS", few)
        patch.setattr(call_files, "_CALLS_PER_COUNT", 0)
        for frame, path in zip(frames, files, strict=True):
            with path.open("wb") as file:
                call_files.write_calls(frame, file)
    return files


def _by_day(calls: pl.DataFrame) -> list[pl.DataFrame]:
    return [day for _, day in calls.group_by(pl.col("ts").dt.date(), maintain_order=True)]


def _last(days: int) -> CallWindow:
    return CallWindow(days=days, now=datetime(2100, 1, 1, tzinfo=UTC))


def _results(audited: AuditedWindow) -> tuple[object, ...]:
    return audited.report.to_json(), audited.traffic, audited.finding_days


@pytest.fixture(scope="module")
def files(calls: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return _store(_by_day(calls), tmp_path_factory.mktemp("counted"), few=0)


@pytest.mark.parametrize("days", sampled([CUT, DAYS], 2))
def test_counts_change_no_result(
    calls: pl.DataFrame, files: list[Path], days: int, tmp_path: Path
) -> None:
    plain = _store(_by_day(calls), tmp_path, few=calls.height)
    assert [FileCounts.read(file) is None for file in (files[0], plain[0])] == [False, True]
    audited, expected = (windows.audit_window(each, _last(days), TERMS) for each in (files, plain))
    assert _results(audited) == _results(expected)
    assert "unknown" in {each.model for each in audited.report.unpriced}
    assert audited.report.data_quality
    unknown = audited.report.data_quality.unknown_fields or ()
    assert [each.name for each in unknown] == ["a_tokens", "b_tokens", "c_tokens"]
    assert audited.traffic is not None
    assert sum(each.calls for each in audited.traffic.traffic) == audited.report.audit.metered_calls


@pytest.mark.parametrize(
    ("days", "of_days", "counted"),
    [
        pytest.param(DAYS, 1, [], id="whole files"),
        pytest.param(CUT, 1, [], id="fewer files of a day"),
        pytest.param(CUT, 100, [4], id="a file of many days is cut"),
    ],
)
def test_only_files_that_are_cut_are_counted_again(
    calls: pl.DataFrame,
    days: int,
    of_days: int,
    counted: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by_day = _by_day(calls)
    parts = [pl.concat(by_day[at : at + of_days]) for at in range(0, len(by_day), of_days)]
    files = _store(parts, tmp_path, few=0)
    of, found = FileCounts.of, list[pl.DataFrame]()

    def count(frames: Iterable[pl.DataFrame]) -> FileCounts:
        found.append(pl.concat(frames))
        return of([found[-1]])

    monkeypatch.setattr(FileCounts, "of", count)
    window = windows.read_window(files, _last(days))
    assert [frame["ts"].dt.date().n_unique() for frame in found] == counted
    assert 0 < window.calls.rows <= calls.height


def test_seconds_of_a_day_in_several_files_count_once(calls: pl.DataFrame, tmp_path: Path) -> None:
    """Calls of one second may be in both halves."""
    whole = _by_day(calls)
    halves = [half for day in whole for half in (day.gather_every(2), day.gather_every(2, 1))]
    files = _store([each for each in halves if each.height], tmp_path, few=0)
    expected = FileCounts.add([FileCounts.of([day]) for day in whole])
    counted = windows.read_window(files, _last(DAYS)).calls.counted
    assert counted is not None
    assert {row["day"]: row["seconds"] for row in counted.days} == {
        row["day"]: row["seconds"] for row in expected.days.iter_rows(named=True)
    }


def test_a_large_file_is_counted_a_few_calls_at_a_time(
    calls: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = _store([calls], tmp_path, few=calls.height)
    whole = windows.read_window(files, _last(DAYS))
    of, heights = FileCounts.of, list[int]()

    def count(frames: Iterable[pl.DataFrame]) -> FileCounts:
        few = list(frames)
        heights.extend(frame.height for frame in few)
        return of(few)

    monkeypatch.setattr(FileCounts, "of", count)
    monkeypatch.setattr(stored_calls, "COUNTED_AT_ONCE", 100)
    again = windows.read_window(files, _last(DAYS))
    assert len(heights) > 1
    assert max(heights) == 100
    assert again.traffic == whole.traffic
    assert again.calls.counted is not None
    assert whole.calls.counted is not None
    for name in ("days", "models", "unknown"):
        rows, expected = (getattr(each.calls.counted, name) for each in (again, whole))
        assert sorted(map(str, rows)) == sorted(map(str, expected))


def test_files_that_share_some_days_are_counted_again_on_these_days_only(
    calls: pl.DataFrame, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As late calls do: here every hundredth call is in one file of its own."""
    late = calls.gather_every(100)
    days = [day.join(late, on=day.columns, how="anti", nulls_equal=True) for day in _by_day(calls)]
    shared = _store([day for day in days if day.height] + [late], tmp_path, few=0)
    audited = windows.audit_window(shared, _last(DAYS), TERMS)
    assert _results(audited) == _results(windows.audit_window(files, _last(DAYS), TERMS))
    of, found = FileCounts.of, list[int]()

    def count(frames: Iterable[pl.DataFrame]) -> FileCounts:
        frame = pl.concat(frames)
        found.append(frame["ts"].dt.date().n_unique())
        return of([frame])

    monkeypatch.setattr(FileCounts, "of", count)
    windows.read_window(shared, _last(DAYS))
    of_late, of_all = of([late]).days.height, len(days)  # days with metered calls
    assert found == [of_late]
    assert of_late < of_all


def test_equal_calls_give_equal_counts_under_their_own_name(
    calls: pl.DataFrame, tmp_path: Path
) -> None:
    (tmp_path / "again").mkdir()
    first = _store([calls], tmp_path, few=0) + _store([calls], tmp_path / "again", few=0)
    assert first[0].read_bytes() == first[1].read_bytes()
    # Counts under another name are not read.
    # Another release may count otherwise.
    file = tmp_path / "other.parquet"
    other = {f"{name}0": text for name, text in FileCounts.of([calls]).to_metadata().items()}
    calls.write_parquet(file, metadata=other)
    assert FileCounts.read(file) is None


def test_routes_that_hardly_repeat_are_not_counted(
    calls: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_files, "FEW_CALLS", 0)
    often = pl.concat([calls] * 30)
    tags = pl.format("only-{}", pl.int_range(pl.len())).alias("tag")
    files = tmp_path / "repeated", tmp_path / "unique"
    for frame, path in zip((often, often.with_columns(tags)), files, strict=True):
        with path.open("wb") as file:
            call_files.write_calls(frame, file)
    assert [FileCounts.read(path) is None for path in files] == [False, True]
