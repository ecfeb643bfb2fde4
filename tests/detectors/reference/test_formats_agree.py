"""The same calls in every log format give what the reference says of the records."""

import gzip
from pathlib import Path

import pytest

import detectors
from detectors import Thresholds
from detectors.contract import UsageRecord
from detectors.errors import TooFewValidRowsError
from tests.cases import each_case
from tests.detectors.reference import logs
from tests.detectors.reference.audit import audit
from tests.detectors.reference.compare import assert_agrees
from tests.detectors.reference.logs import Writer
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

SEEDS = (0, 9, 11, 21)  # whole logs, with every kind of traffic in them
FEW = 200


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=pytest.mark.stress) for seed in SEEDS])
@pytest.mark.parametrize("write", logs.FORMATS)
def test_a_log_file_agrees_with_the_reference(tmp_path: Path, write: Writer, seed: int) -> None:
    file, records = _write(tmp_path / "calls.log", write, draw_log(seed))
    assert_agrees(detectors.audit(file), audit(records))


def test_short_log_files_agree_with_the_reference(tmp_path: Path) -> None:
    drawn = draw_log(SEEDS[0])[:FEW]
    written = [_write(tmp_path / write.__name__, write, drawn) for write in logs.FORMATS]
    reports = detectors.audit_many([detectors.read(file) for file, _ in written])
    for report, (_, records) in zip(reports, written, strict=True):
        assert_agrees(report, audit(records))


def _write(file: Path, write: Writer, drawn: list[UsageRecord]) -> tuple[Path, list[UsageRecord]]:
    """Return the file, and what of the drawn calls it has."""
    records = logs.writable(drawn, write)
    file.write_bytes(write(records))
    return file, records


@pytest.mark.parametrize("count", [FEW, pytest.param(None, marks=pytest.mark.stress)])
@pytest.mark.parametrize("write", sampled([logs.as_csv, logs.as_wrapped_responses], 2))
def test_every_kind_of_source_gives_the_same_bytes(
    tmp_path: Path, write: Writer, count: int | None
) -> None:
    records = logs.writable(draw_log(SEEDS[0])[:count], write)
    plain, packed = tmp_path / "calls.log", tmp_path / "calls.log.gz"
    plain.write_bytes(write(records))
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    log = detectors.read(plain)
    assert detectors.read(packed).frame.equals(log.frame)
    expected = detectors.audit(records).to_json()
    assert detectors.audit(packed).to_json() == expected
    with plain.open("rb") as opened:
        assert detectors.audit(opened).to_json() == expected
    assert detectors.audit(log).to_json() == expected


def _log_with_invalid_rows(file: Path, valid: int, invalid: int) -> Path:
    rows = ["2026-10-06T09:00:00Z,openai,gpt-4.1,10,10"] * valid
    rows += ["2026-10-06T09:00:00Z,openai,gpt-4.1,10,-1"] * invalid
    header = "ts,provider,model,prompt_tokens,completion_tokens"
    file.write_text("\n".join([header, *rows, ""]))
    return file


@pytest.mark.parametrize(
    ("valid", "invalid", "limit"), [(10, 10, 50.0), (11, 9, 50.0), (9, 11, 45.0)]
)
def test_enough_valid_rows_are_audited(
    tmp_path: Path, valid: int, invalid: int, limit: float
) -> None:
    file = _log_with_invalid_rows(tmp_path / "calls.csv", valid, invalid)
    report = detectors.audit(file, thresholds=Thresholds(min_valid_pct=limit))
    assert report.audit.valid_pct == pytest.approx(100 * valid / (valid + invalid))
    assert (report.audit.records, report.invalid_rows.count) == (valid, invalid)


@each_case(("valid", "invalid", "limit"), [(9, 11, 50.0), (10, 10, 50.1), (999, 1_001, 50.0)])
def test_too_few_valid_rows_are_refused(
    tmp_path: Path, valid: int, invalid: int, limit: float
) -> None:
    file = _log_with_invalid_rows(tmp_path / "calls.csv", valid, invalid)
    with pytest.raises(TooFewValidRowsError):
        detectors.audit(file, thresholds=Thresholds(min_valid_pct=limit))
