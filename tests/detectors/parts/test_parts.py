"""An audit in parts: equal to the audit of the whole, whatever the parts and their order."""

from pathlib import Path
from random import Random
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from msgspec.structs import replace

import detectors
from detectors.contract import UsageRecord
from detectors.errors import GroupTooLargeError, ScratchFullError, SourceChangedError
from detectors.frames import parts, tables
from detectors.frames.sources import place
from detectors.report import pipeline
from detectors.report.part import audit_part
from detectors.report.pipeline import audit_logs
from tests.detectors.inputs.frames import as_polars
from tests.detectors.reference.limits import draw_thresholds
from tests.detectors.reference.logs import as_csv
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

SEEDS = range(200)


class _Shuffled:
    """The parts of a log in another order."""

    def __init__(self, inner: parts.Parts, rng: Random) -> None:
        self._inner, self._order = inner, list(range(inner.count))
        rng.shuffle(self._order)
        self.count, self.in_memory, self.scan = inner.count, inner.in_memory, inner.scan

    def take(self, number: int) -> list[pl.LazyFrame]:
        return self._inner.take(self._order[number])

    def share(self, number: int) -> parts.Share:
        return self._inner.share(self._order[number])

    def close(self) -> None:
        self._inner.close()


def _split(monkeypatch: pytest.MonkeyPatch, each: int, *, on_disk: bool) -> None:
    for name in ("PART_CALLS", "MEMORY_PART_CALLS"):
        monkeypatch.setattr(parts, name, each)
    monkeypatch.setattr(parts, "ONE_PART_CALLS", each)
    if on_disk:
        monkeypatch.setattr(parts, "MEMORY_CALLS", 1)
        monkeypatch.setattr(parts, "_BATCH_CALLS", 600)


@pytest.mark.parametrize("seed", sampled(SEEDS, 200))
def test_parts_and_their_order_change_no_byte(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = Random(seed)
    frame = as_polars(draw_log(seed % 100))
    thresholds = draw_thresholds(rng) if seed % 2 else detectors.Thresholds()
    whole = detectors.audit(frame, thresholds=thresholds)
    wanted = rng.choice([1, 2, 3, 5, 8, 16, 64]) if seed % 50 else 4  # many take seconds
    _split(monkeypatch, -(-frame.height // wanted), on_disk=seed % 3 > 0)
    log = place(frame, scratch=tmp_path)
    assert log.calls.count <= wanted
    monkeypatch.setattr(pipeline, "_MOST_DETAILS", rng.choice([0, 20, 2_000]))
    shuffled = _Shuffled(log.calls, rng)
    (report,) = audit_logs([log], shuffled, detectors.PriceBook(), thresholds).reports
    log.calls.close()
    assert report.to_json() == whole.to_json()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("on_disk", sampled([True, False], 2))
def test_calls_behind_a_finding_are_read_again_unless_their_source_has_changed(
    on_disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source of fewer calls has changed, and one with other numbers of as many."""
    log, calls = tmp_path / "calls.csv", draw_log(9)
    log.write_bytes(as_csv(calls))
    whole = detectors.audit(log)
    _split(monkeypatch, 200, on_disk=on_disk)
    report = detectors.audit(log, scratch=tmp_path / "scratch")
    assert report.to_json() == whole.to_json()
    findings = [finding.id for finding in report.findings]
    assert findings
    for own, other in zip(
        report.collect_calls(findings), whole.collect_calls(findings), strict=True
    ):
        assert own.equals(other)
    for changed in (calls[: len(calls) // 2], [_grow(each) for each in calls]):
        log.write_bytes(as_csv(changed))
        with pytest.raises(SourceChangedError, match="changed since the audit"):
            report.collect_calls(findings[:1])


def _grow(call: UsageRecord) -> UsageRecord:
    return replace(
        call, prompt_tokens=call.prompt_tokens + 1, completion_tokens=call.completion_tokens + 1
    )


def test_progress_is_reported_by_part_and_can_end_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _split(monkeypatch, 300, on_disk=True)
    frame, steps = as_polars(draw_log(9)), list[tuple[int, int]]()
    detectors.audit(frame, scratch=tmp_path, progress=lambda *step: steps.append(step))
    total = 2 * -(-frame.height // 300)
    assert steps == [(step, total) for step in range(1, total + 1)]

    def cancel(done: int, of: int) -> None:
        if done == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        detectors.audit(frame, scratch=tmp_path, progress=cancel)
    assert not list(tmp_path.iterdir())


def test_two_parts_in_memory_are_audited_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, own = as_polars(draw_log(9)), audit_part
    _split(monkeypatch, -(-frame.height // 4), on_disk=False)
    both = Barrier(2, timeout=60)

    def audit(*part: Any) -> Any:
        both.wait()
        return own(*part)

    monkeypatch.setattr(pipeline, "audit_part", audit)
    detectors.audit(frame)
    assert not both.broken


def test_parts_in_memory_have_about_as_many_calls_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """By order of bucket, some part would have more than the largest route and its share."""
    _split(monkeypatch, 250, on_disk=False)
    sizes = [300, 120, *[20] * 29]
    tags = [f"route-{number}" for number, calls in enumerate(sizes) for _ in range(calls)]
    call = {"ts": "2026-10-01T09:00:00Z", "provider": "openai", "model": "gpt-4.1"}
    rows = [call | {"tag": tag, "prompt_tokens": 9, "completion_tokens": 1} for tag in tags]
    log = place(rows)
    found = [log.calls.take(number)[0].collect().height for number in range(log.calls.count)]
    assert sorted(found) == [220, 240, 240, 300]


def test_a_group_beyond_the_memory_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _split(monkeypatch, 300, on_disk=True)
    monkeypatch.setattr(parts, "_free_memory", lambda: 1_000)
    with pytest.raises(GroupTooLargeError) as caught:
        detectors.audit(as_polars(draw_log(9)), scratch=tmp_path)
    message = str(caught.value)
    route = f'Route "{caught.value.route}"' if caught.value.route else "Traffic without"
    assert message.startswith(route)
    assert caught.value.model in message
    assert "give parts of the route tags of their own" in message
    assert not list(tmp_path.iterdir())


def test_too_little_space_is_seen_before_it_is_used_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _split(monkeypatch, 300, on_disk=True)
    monkeypatch.setattr(tables, "_PART_ROWS", 200)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000))
    with pytest.raises(ScratchFullError, match=r"needs about .* GB for scratch files in") as caught:
        detectors.audit(as_polars(draw_log(9)), scratch=tmp_path)
    assert "name another folder as `scratch`" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_becomes_full_is_named(tmp_path: Path) -> None:
    scratch = parts.Scratch(tmp_path, 2)
    (folder,) = tmp_path.iterdir()
    (folder / "00000.parquet").symlink_to("/dev/full")
    calls = detectors.frames.sources.place(as_polars(draw_log(9))).calls.scan().collect()
    with pytest.raises(ScratchFullError, match="The audit needs more space for scratch files in"):
        scratch.write(calls)
    scratch.close()
    assert not list(tmp_path.iterdir())


def test_a_part_without_calls_has_the_columns_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = as_polars([replace(each, tag="one", model="gpt-5.4") for each in draw_log(9)])
    whole = detectors.audit(frame)
    _split(monkeypatch, 100, on_disk=True)
    log = place(frame, scratch=tmp_path)
    calls = log.calls.scan().collect()
    heights = [log.calls.take(n)[0].collect().height for n in range(log.calls.count)]
    assert 0 in heights
    assert sum(heights) == calls.height
    assert detectors.audit(frame, scratch=tmp_path).to_json() == whole.to_json()


def test_the_gap_of_outliers_is_at_least_a_day() -> None:
    with pytest.raises(ValueError, match="outlier_gap_days must be a number from 1"):
        detectors.Thresholds(outlier_gap_days=0.5)
