"""The six rules in pandas claim what the library claims, so that their times can be compared."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import detectors
from detectors import Thresholds
from examples.sample_log.write import SAMPLE
from tests.detectors.corpus.clean import clean_calls
from tests.detectors.corpus.planted import cut_answers, oversized_prompts

Savings = dict[str, dict[str, tuple[int, float]]]


def _lines(calls: pl.DataFrame) -> Iterator[str]:
    """Write the calls as the benchmark's logs have them."""
    number = count()
    for row in calls.iter_rows(named=True):
        usage = {name: row.pop(name) for name in ("prompt_tokens", "completion_tokens")}
        details = {name: row.pop(name) for name in ("cached_tokens", "cache_write_tokens")}
        call = {"id": f"call-{next(number)}", "created": row.pop("ts").timestamp()}
        call |= {"usage": usage | {"prompt_tokens_details": details}}
        yield json.dumps(call | {name: value for name, value in row.items() if value}) + "\n"


def _claimed(log: Path) -> Savings:
    """Return the calls and the dollars of each kind of finding that claims any."""
    report = detectors.audit(log, thresholds=Thresholds(floor_usd=0))
    found: Savings = {}
    for one in report.findings:
        if one.observed_cost_impact_usd:
            kinds = found.setdefault(one.detector, {})
            calls, usd = kinds.get(one.kind, (0, 0.0))
            kinds[one.kind] = (calls + one.calls, usd + float(one.observed_cost_impact_usd))
    return found


def _assert_equal(log: Path) -> Savings:
    from benchmarks.growth.six_rules_in_pandas import find_savings  # imports pandas

    claimed = _claimed(log)
    found = {detector: kinds for detector, kinds in find_savings(log).items() if kinds}
    assert {name: set(kinds) for name, kinds in found.items()} == {
        name: set(kinds) for name, kinds in claimed.items()
    }
    for detector, kinds in claimed.items():
        for kind, (calls, usd) in kinds.items():
            assert found[detector][kind][0] == calls, (detector, kind)
            assert found[detector][kind][1] == pytest.approx(usd, rel=1e-7), (detector, kind)
    return claimed


def test_they_claim_the_same_of_the_sample_log() -> None:
    claimed = _assert_equal(SAMPLE)
    assert set(claimed["d2_missed_caching"]) == {
        "uncached_prefix",
        "short_lifetime",
        "unread_writes",
    }
    assert set(claimed["d4_duplicate_calls"]) == {"same_prompt", "same_shape"}
    assert set(claimed["d1_model_overkill"]) == {"legacy_model", "short_answers"}
    assert set(claimed) >= {"d6_chatty_loop"}


def test_they_claim_the_same_of_large_prompts_and_cut_answers(tmp_path: Path) -> None:
    rng, clean = np.random.default_rng(0), clean_calls(600, seed=0)
    plants = [sow(60, rng).calls.select(clean.columns) for sow in (oversized_prompts, cut_answers)]
    named = [
        plant.with_columns((pl.col("tag") + f"-{index}").alias("tag"))
        for index, plant in enumerate(plants)
    ]
    log = tmp_path / "usage.jsonl"
    log.write_text("".join(_lines(pl.concat([clean, *named]).sort("ts"))))
    claimed = _assert_equal(log)
    assert set(claimed["d3_context_bloat"]) == {"outgrown"}
    assert set(claimed["d5_max_tokens_misfit"]) == {"truncated"}
