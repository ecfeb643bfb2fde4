"""The rules against the reference, on random traffic of every kind."""

from collections import Counter
from functools import cache
from random import Random

import pytest
from msgspec.structs import replace

import detectors
from detectors import Report
from detectors.contract import UsageRecord
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.compare import assert_agrees, assert_evidence, assert_ranked
from tests.detectors.reference.limits import draw_thresholds
from tests.detectors.reference.traffic import draw_log
from tests.worker.support.promises import sampled

ALL_SEEDS = range(1, 121)
SEEDS = ALL_SEEDS[::8]
SHUFFLED_SEEDS = range(1, 121, 4)
SEEDS_OF_LIMITS = range(200, 225)

KINDS = {
    ("d1_model_overkill", ""),
    ("d2_missed_caching", "uncached_prefix"),
    ("d2_missed_caching", "unhashed_prefix"),
    ("d2_missed_caching", "unread_writes"),
    ("d3_context_bloat", ""),
    ("d4_duplicate_calls", "same_prompt"),
    ("d4_duplicate_calls", "same_shape"),
    ("d5_max_tokens_misfit", "truncated"),
    ("d5_max_tokens_misfit", "oversized_cap"),
    ("d6_chatty_loop", ""),
}


@cache
def _log(seed: int) -> tuple[UsageRecord, ...]:
    return tuple(draw_log(seed))


@cache
def _outcome(seed: int) -> Outcome:
    return audit(_log(seed))


@cache
def _report(seed: int) -> Report:
    return detectors.audit(_log(seed))


@pytest.mark.parametrize("seed", sampled(ALL_SEEDS, 24))
def test_the_rules_agree_with_the_reference(seed: int) -> None:
    report = _report(seed)
    assert_agrees(report, _outcome(seed))
    assert_ranked(report)
    assert_evidence(report)


@pytest.mark.parametrize("seed", sampled(SEEDS_OF_LIMITS, 8))
def test_they_agree_under_other_thresholds(seed: int) -> None:
    limits = draw_thresholds(Random(seed))
    report = detectors.audit(_log(seed), thresholds=limits)
    assert_agrees(report, audit(_log(seed), limits))
    assert_evidence(report)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record for record in draw_log(9) if record.model.startswith("my-own")],
        [replace(record, prompt_tokens=0, completion_tokens=0) for record in draw_log(9)],
        draw_log(9)[:1],
    ],
    ids=["no call", "no priced call", "calls without tokens", "one call"],
)
def test_they_agree_on_a_nearly_empty_log(records: list[UsageRecord]) -> None:
    assert_agrees(detectors.audit(records), audit(records))


@pytest.mark.parametrize("seed", sampled(SHUFFLED_SEEDS, 15))
def test_the_order_of_the_rows_changes_no_byte(seed: int) -> None:
    shuffled = list(_log(seed))
    Random(seed).shuffle(shuffled)
    assert detectors.audit(shuffled).to_json() == _report(seed).to_json()


def test_each_kind_of_finding_fires_at_least_five_times() -> None:
    fired = Counter((line.detector, line.kind) for seed in SEEDS for line in _outcome(seed).lines)
    assert set(fired) == KINDS
    assert min(fired.values()) >= 5, fired


def test_both_confidences_of_a_loop_and_all_severities_occur() -> None:
    lines = [line for seed in SEEDS for line in _outcome(seed).lines]
    loops = {line.confidence for line in lines if line.detector == "d6_chatty_loop"}
    assert loops == {"ESTIMATED", "INFORMATIONAL"}
    assert {line.severity for line in lines} == {"high", "medium", "low"}


def test_every_unusual_case_of_a_log_occurs() -> None:
    outcomes = [_outcome(seed) for seed in SEEDS]
    assert sum(outcome.echoes_dropped > 0 for outcome in outcomes) >= 5
    assert sum(outcome.overfull_records > 0 for outcome in outcomes) >= 5
    assert sum(outcome.below_floor > 0 for outcome in outcomes) >= 5
    assert sum(bool(outcome.unpriced) for outcome in outcomes) >= 5
    assert {outcome.equiv_spend for outcome in outcomes} == {True, False}
