"""Calls billed at other tiers: every way into the library agrees with the reference."""

from io import BytesIO
from pathlib import Path
from random import Random

import polars as pl
import pytest
from msgspec.structs import asdict

import detectors
from detectors.contract import UsageRecord
from detectors.frames import read_log, write_log
from tests.detectors.reference import logs
from tests.detectors.reference.audit import audit
from tests.detectors.reference.compare import assert_agrees
from tests.detectors.reference.test_formats_agree import Writer
from tests.detectors.reference.tiers import TIERS, draw_tiers, tier_of
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

SEEDS = range(9, 120, 8)


def _draw(seed: int) -> list[UsageRecord]:
    return draw_tiers(Random(seed), draw_log(seed))


def _frame(records: list[UsageRecord]) -> pl.DataFrame:
    return pl.DataFrame([asdict(record) for record in records], infer_schema_length=None)


@pytest.mark.parametrize("seed", sampled(SEEDS, 7))
def test_a_frame_with_tiers_agrees_with_the_reference(seed: int) -> None:
    records = _draw(seed)
    assert_agrees(detectors.audit(_frame(records)), audit(records))


@pytest.mark.parametrize("seed", sampled([9, 25], 2))
@pytest.mark.parametrize("write", sampled([*logs.OPENAI_FORMATS, *logs.ANTHROPIC_FORMATS], 3))
def test_a_providers_log_with_tiers_agrees_with_the_reference(
    tmp_path: Path, write: Writer, seed: int
) -> None:
    records = _draw(seed)
    if write in logs.ANTHROPIC_FORMATS:
        records = [record for record in records if logs.fits_anthropic(record)]
    file = tmp_path / "calls.log"
    file.write_bytes(write(records))
    assert_agrees(detectors.audit(file), audit(records))


def test_every_tier_is_drawn_and_most_of_them_change_the_spend() -> None:
    records = [record for seed in SEEDS for record in _draw(seed)]
    assert {tier_of(record) for record in records} == set(TIERS)
    tiered, plain = _frame(records), _frame(records).drop("service_tier")
    spent = [detectors.audit(frame).audit.total_spend_usd for frame in (tiered, plain)]
    assert spent[0] != spent[1]


def test_a_kept_frame_gives_the_same_bytes_again() -> None:
    log, kept = detectors.read(_frame(_draw(9))), BytesIO()
    write_log(log, kept)
    kept.seek(0)
    assert detectors.audit(read_log(kept)).to_json() == detectors.audit(log).to_json()
