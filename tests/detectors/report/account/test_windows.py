"""An account's calls from files that lack columns, with labels that repeat or not."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import detectors
from detectors.contract import AuditedWindow, CallWindow, Report
from detectors.engine import categories
from detectors.engine.frames import FEW_CALLS
from detectors.frames import parts
from detectors.frames.usage_log import CALLS, OPTIONAL_CALLS, concat
from detectors.prices.model_data import flat_rate_labels
from detectors.report.account import call_files, stored_calls, windows
from detectors.report.account.imports import Terms
from detectors.report.counting.projection import EPOCH, iso_time
from tests.detectors.inputs.frames import as_polars
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

SEEDS = (106, 39)
LOOPS = (28, 118)
MICROSECOND = timedelta(microseconds=1)
TERMS = Terms(detectors.PriceBook(), None, detectors.Thresholds())
ALL = CallWindow(days=4_000, now=datetime(2100, 1, 1, tzinfo=UTC))


def _calls() -> pl.DataFrame:
    """Return calls of random traffic, each once, with and without version 2's columns.

    Some of them are outliers: copies of others, years earlier.
    """
    rows = [frame.unique(maintain_order=True) for frame in map(_with_labels, SEEDS)]
    early = rows[0][:9].with_columns(pl.col("ts") - timedelta(days=2_000))
    return concat([*rows, early]).sort("ts", maintain_order=True)


def _with_labels(seed: int) -> pl.DataFrame:
    frame = detectors.read(as_polars(draw_log(seed))).frame
    if seed == SEEDS[0]:
        return frame
    session = pl.format("chat-{}", pl.int_range(pl.len()) // 20).alias("session_id")
    return frame.with_columns(session, region=pl.lit("eu"), environment=pl.lit("production"))


def _metered(calls: pl.DataFrame) -> pl.DataFrame:
    return calls.filter(~pl.col("provider").is_in(flat_rate_labels()))


def _write(calls: pl.DataFrame, folder: Path) -> list[Path]:
    """Write three files, not in order; the first calls have none of the optional columns."""
    third = calls.height // 3
    files = []
    for number, start in enumerate((2 * third, 0, third)):
        part = calls[start : start + third] if start < 2 * third else calls[start:]
        texts = [name for name in part.columns if name in OPTIONAL_CALLS]
        unused = [name for name in texts if not (part[name] != _empty(part[name])).any()]
        files.append(folder / f"{number}.parquet")
        part.drop(unused).write_parquet(files[-1])
    return files


def _empty(column: pl.Series) -> str | int:
    return "" if column.dtype == pl.String else 0


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Return the report of all calls in one file, audited as few calls are."""
    files = _write_one(_calls(), tmp_path_factory.mktemp("alone"))
    return windows.audit_window(files, ALL, TERMS).report


@pytest.mark.parametrize(
    ("few", "most"),
    [
        pytest.param(FEW_CALLS, categories.MOST_CATEGORIES, id="few, categories"),
        pytest.param(0, 0, id="many, texts"),
        pytest.param(FEW_CALLS, 0, id="few, texts", marks=pytest.mark.stress),
        pytest.param(
            0, categories.MOST_CATEGORIES, id="many, categories", marks=pytest.mark.stress
        ),
    ],
)
def test_any_files_of_any_number_of_calls_give_the_same_report(
    alone: Report, few: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _set_few(monkeypatch, few)
    monkeypatch.setattr(categories, "MOST_CATEGORIES", most)
    audited = windows.audit_window(_write(_calls(), tmp_path), ALL, TERMS)
    assert audited.report.findings
    assert audited.report.to_json() == alone.to_json()
    assert _add_days(audited) == {each.id: each.calls for each in audited.report.findings}


def _set_few(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    for module in ("detectors.engine.frames", "detectors.prices.calls"):
        monkeypatch.setattr(f"{module}.FEW_CALLS", few)


def _add_days(audited: AuditedWindow) -> Counter[str]:
    calls = Counter[str]()
    for each in audited.finding_days:
        calls[each.finding_id] += each.calls
    return calls


@pytest.mark.parametrize("seed", sampled(LOOPS, 2))
def test_many_calls_without_sessions_are_split_as_few_are(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without session IDs, loops are found by comparing each call with the row before."""
    calls = detectors.read(as_polars(draw_log(seed))).frame
    calls = calls.select(pl.exclude("session_id")).unique(maintain_order=True)
    few = windows.audit_window(_write_one(calls, tmp_path), ALL, TERMS).report
    _set_few(monkeypatch, 0)
    many = windows.audit_window(_write_one(calls, tmp_path), ALL, TERMS).report
    assert "d6_chatty_loop" in {finding.detector for finding in many.findings}
    assert many.to_json() == few.to_json()


def _write_one(calls: pl.DataFrame, folder: Path) -> list[Path]:
    calls.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(folder / "all.parquet")
    return [folder / "all.parquet"]


def test_labels_of_some_files_repeat_and_of_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(categories, "MOST_CATEGORIES", 500)
    calls = _calls()
    unique = pl.format("only-{}", pl.int_range(pl.len())).alias("tag")
    halves = calls[: calls.height // 2], calls[calls.height // 2 :].with_columns(unique)
    files = [tmp_path / "repeating.parquet", tmp_path / "unique.parquet"]
    for half, file in zip(halves, files, strict=True):
        half.write_parquet(file)
    assert halves[1].height > categories.MOST_CATEGORIES
    kinds = windows.read_window(files, ALL).calls.calls.scan().collect_schema()
    assert (str(kinds["tag"]), str(kinds["model"])) == ("String", "Categorical")


def test_only_the_window_is_read_and_its_days_are_whole(tmp_path: Path) -> None:
    """What was spent in it is the sum of what was spent on each of its days."""
    calls = _calls()
    window = windows.read_window(_write(calls, tmp_path), replace(ALL, days=10, duplicates=5)).calls
    newest: datetime = calls["ts"].to_list()[-1]
    first = newest.date() - timedelta(days=9)
    expected = calls.filter(pl.col("ts").dt.date() >= first).height
    window_of_month = CallWindow(days=30, now=newest)
    after = window_of_month.after(datetime(2026, 11, 27, 21, 56, tzinfo=UTC))
    assert after + timedelta(microseconds=1) == datetime(2026, 10, 29, tzinfo=UTC)
    assert 0 < expected < calls.height
    assert window.rows == expected + 5


def test_calls_in_the_future_are_counted_and_enter_when_their_time_comes(tmp_path: Path) -> None:
    """Also those in a file whose counts are stored; a call exactly a day ahead is not one."""
    calls = _metered(_calls()).head(60)
    now: datetime = calls["ts"].to_list()[-1]
    ahead = [timedelta(days=1), timedelta(days=1, microseconds=1), timedelta(days=9)]
    later = [calls.head(1).with_columns(ts=pl.lit(now + each)) for each in ahead]
    files = _write_one(concat([calls, *later]), tmp_path)
    read = replace(ALL, now=now, future_calls=5)
    for days_later, rows, future in ((0, 61, 7), (2, 62, 6), (9, 63, 5)):
        window = replace(read, now=now + timedelta(days=days_later))
        audited = windows.audit_window(files, window, TERMS)
        assert audited.report.audit.records == rows
        assert audited.traffic is not None
        assert sum(each.calls for each in audited.traffic.traffic) == rows
        quality = audited.report.data_quality
        assert quality is not None
        assert quality.future_calls == future
    early = windows.audit_window(files, replace(read, now=now - timedelta(days=9_000)), TERMS)
    assert (early.report.audit.records, early.traffic) == (0, None)


@pytest.mark.parametrize(("calls", "kind"), [(29, "none"), (30, "good")])
def test_who_resumes_after_a_pause_is_seen_at_once(calls: int, kind: str, tmp_path: Path) -> None:
    """And the kind of the projection counts the calls of its 30 days."""
    usual = _metered(_calls()).tail(3_000)
    newest: datetime = usual["ts"].to_list()[-1]
    resumed = usual.head(calls).with_columns(
        ts=pl.lit(newest + timedelta(days=45)) + pl.duration(minutes=pl.int_range(pl.len()))
    )
    window = CallWindow(days=90, now=newest + timedelta(days=45, hours=1))
    files = _write_one(concat([usual, resumed]), tmp_path)
    audit = windows.audit_window(files, window, TERMS).report.audit
    assert audit.last_call == iso_time((resumed["ts"].to_list()[-1] - EPOCH) // MICROSECOND)
    assert (audit.outlier_calls, audit.projection) == (0, kind)


def test_no_calls_give_an_empty_report(tmp_path: Path) -> None:
    CALLS.to_frame().write_parquet(tmp_path / "empty.parquet")
    audited = windows.audit_window([tmp_path / "empty.parquet"], ALL, TERMS)
    assert (audited.report.findings, audited.finding_days, audited.traffic) == ((), [], None)
    assert windows.audit_window([], ALL, TERMS).report.to_json() == audited.report.to_json()


@pytest.mark.parametrize(
    "in_order", ["some", *(pytest.param(one, marks=pytest.mark.stress) for one in ("none", "all"))]
)
def test_an_account_in_parts_gives_the_same_report(
    in_order: str, alone: Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stored files may be in order of bucket, or written by an earlier release."""
    expected = windows.audit_window(_write_one(_calls(), tmp_path), ALL, TERMS)
    calls, each = _calls().with_columns(pl.lit("import").alias("import_id")), 400
    files = []
    for number, start in enumerate(range(0, calls.height, each)):
        is_sorted = in_order == "all" or (in_order == "some" and number % 2)
        monkeypatch.setattr(call_files, "MANY_CALLS", 1 if is_sorted else calls.height + 1)
        files.append(tmp_path / f"part-{number}.parquet")
        with files[-1].open("wb") as file:
            call_files.write_calls(calls[start : start + each], file)
        assert bool(call_files.read_starts(files[-1])) == bool(is_sorted)
    monkeypatch.setattr(stored_calls, "MEMORY_CALLS", 1)
    monkeypatch.setattr(stored_calls, "ONE_PART_CALLS", 1)
    monkeypatch.setattr(stored_calls, "PART_CALLS", 300)
    monkeypatch.setattr(parts, "PART_CALLS", 600)
    steps = list[tuple[int, int]]()
    audited = windows.audit_window(files, ALL, TERMS, lambda *step: steps.append(step))
    assert len(steps) > 4
    assert audited.report.to_json() == expected.report.to_json() == alone.to_json()
    assert audited.finding_days == expected.finding_days
    assert audited.traffic == expected.traffic


def test_calls_of_parts_that_were_in_memory_are_read_again_from_files_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a part has buckets from all over a file that is in order of bucket."""
    calls = _calls().with_columns(pl.lit("import").alias("import_id"))
    whole = windows.audit_window(_write_one(calls, tmp_path), ALL, TERMS, keep_calls=True).report
    files = [tmp_path / "in-order.parquet", tmp_path / "as-they-came.parquet"]
    half = calls.height // 2
    for file, own, most in zip(files, (calls[:half], calls[half:]), (1, half * 2), strict=True):
        monkeypatch.setattr(call_files, "MANY_CALLS", most)
        with file.open("wb") as opened:
            call_files.write_calls(own, opened)
    assert [bool(call_files.read_starts(file)) for file in files] == [True, False]
    monkeypatch.setattr(stored_calls, "ONE_PART_CALLS", 1)
    monkeypatch.setattr(parts, "ONE_PART_CALLS", 1)
    monkeypatch.setattr(parts, "MEMORY_PART_CALLS", -(-calls.height // 8))
    placed = windows.read_window(files, ALL).calls.calls
    assert (placed.in_memory, placed.count) == (True, 8)
    report = windows.audit_window(files, ALL, TERMS, keep_calls=True).report
    assert isinstance(whole, detectors.Report)
    assert isinstance(report, detectors.Report)
    findings = [finding.id for finding in whole.findings]
    assert [finding.id for finding in report.findings] == findings
    for own, other in zip(
        report.collect_calls(findings), whole.collect_calls(findings), strict=True
    ):
        assert own.equals(other)
