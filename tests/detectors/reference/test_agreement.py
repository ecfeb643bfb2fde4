"""Audits against the reference, on random traffic of every kind."""

from collections import Counter
from functools import cache
from random import Random

import polars as pl
import pytest
from msgspec.structs import replace

import detectors
from detectors import Report
from detectors.contract import UsageRecord
from detectors.report.result.document import find_calls
from detectors.rules import DETECTORS
from detectors.rules.detector import INFORMATIONAL
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.builders import at
from tests.detectors.reference.compare import assert_agrees, assert_evidence, assert_ranked
from tests.detectors.reference.limits import Limits, draw_thresholds
from tests.detectors.reference.traffic import (
    draw_crowd_of_routes,
    draw_edges,
    draw_ladders,
    draw_log,
)
from tests.worker.support.promises import sampled

ALL_SEEDS = range(9, 249)
# The seeds whose audits run always, and three times as many.
SEEDS, MORE_SEEDS = ALL_SEEDS[2::24], ALL_SEEDS[2::8]
SHUFFLED_SEEDS = range(1, 121, 4)
SEEDS_OF_LIMITS = range(400, 440)
SEEDS_OF_LADDERS = range(500, 540)
SEEDS_OF_EDGES = range(40)
EVERY_FINDING = detectors.Thresholds(floor_usd=0)

CONFIDENCES = {
    "legacy_model": {"CONDITIONAL"},
    "short_answers": {"CONDITIONAL"},
    "uncached_prefix": {"ESTIMATED"},
    "unhashed_prefix": {"INFORMATIONAL"},
    "short_lifetime": {"ESTIMATED"},
    "unread_writes": {"VERIFIED"},
    "outgrown": {"ESTIMATED"},
    "large_prompts": {"INFORMATIONAL"},
    "same_prompt": {"VERIFIED", "ESTIMATED", "INFORMATIONAL"},
    "same_shape": {"ESTIMATED"},
    "truncated": {"ESTIMATED", "INFORMATIONAL"},
    "oversized_cap": {"INFORMATIONAL"},
    "hashed": {"ESTIMATED"},
    "unhashed": {"INFORMATIONAL"},
}
EMPTY = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "reasoning_tokens": None,
    "audio_prompt_tokens": None,
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


@cache
def _reports() -> dict[int, Report]:
    """Audit the logs that are always audited together, but for the first: ten times as fast."""
    many = detectors.audit_many([detectors.read(_log(seed)) for seed in SEEDS[1:]])
    return dict(zip(SEEDS, [_report(SEEDS[0]), *many], strict=True))


@pytest.mark.parametrize("seed", sampled(ALL_SEEDS, 24))
def test_an_audit_agrees_with_the_reference(seed: int) -> None:
    report = _reports()[seed] if seed in SEEDS else _report(seed)
    assert_agrees(report, _outcome(seed))
    assert_ranked(report)
    assert_evidence(report)


def test_no_detector_claims_savings_of_one_call_twice() -> None:
    """`compose_savings` relies on it. The logs are audited together, so one report has them all."""
    frames = find_calls(_reports()[SEEDS[1]]).reopen(0)
    for detector, found in zip(DETECTORS, frames.found, strict=True):
        claimed = [n for n, kind in enumerate(detector.kinds) if kind.confidence != INFORMATIONAL]
        numbers = found.filter(pl.col("kind").is_in(claimed)).select("number")
        assert not numbers.collect().is_duplicated().any()


@pytest.mark.parametrize("seed", sampled(SEEDS_OF_LIMITS, 40))
def test_an_audit_agrees_under_other_thresholds(seed: int) -> None:
    thresholds = draw_thresholds(Random(seed))
    report = detectors.audit(_log(seed), thresholds=thresholds)
    assert_agrees(report, audit(_log(seed), Limits.of(thresholds)))
    assert_evidence(report)


@pytest.mark.parametrize("seed", sampled(SEEDS_OF_LADDERS, 26))
def test_an_audit_of_hashes_by_level_agrees(seed: int) -> None:
    records = draw_ladders(seed)
    thresholds = draw_thresholds(Random(seed)) if seed % 2 else detectors.Thresholds()
    report = detectors.audit(records, thresholds=thresholds)
    assert_agrees(report, audit(records, Limits.of(thresholds)))
    assert_evidence(report)


@pytest.mark.parametrize("seed", sampled(SEEDS_OF_EDGES, 40))
def test_an_audit_of_calls_on_the_edges_of_levels_agrees(seed: int) -> None:
    records = draw_edges(seed)
    report = detectors.audit(records, thresholds=EVERY_FINDING)
    assert_agrees(report, audit(records, Limits.of(EVERY_FINDING)))
    assert detectors.audit(records[::-1], thresholds=EVERY_FINDING).to_json() == report.to_json()


@pytest.mark.parametrize(("pairs", "read"), [(4, 3_000), (5, 1_024)])
def test_few_pairs_take_the_verdict_of_the_group(pairs: int, read: int) -> None:
    """Of the pairs at level 1, of two hashes together, one grows; at level 5 all of them do."""
    records = [
        at(20.0 * n, 5_000 + 100 * n, 5, prefix_hash="c" * 64, prefix_hash_16k="d" * 64)
        for n in range(9)
    ]
    for text, count in (("a", 3), ("b", pairs - 1)):
        records += [at(20.0 * n, 3_000, 5, prefix_hash=text * 64) for n in range(count)]
    records[-1] = replace(records[-1], prompt_tokens=3_100)
    report = detectors.audit(records, thresholds=EVERY_FINDING)
    [found] = [each for each in report.findings if each.kind == "uncached_prefix"]
    assert [c.prefix_tokens for c in found.evidence if c.prompt_tokens == 3_100] == [read]
    assert_agrees(report, audit(records, Limits.of(EVERY_FINDING)))


@pytest.mark.parametrize("seed", sampled(range(4), 4))
def test_an_audit_of_many_routes_lists_the_same_findings(seed: int) -> None:
    records = draw_crowd_of_routes(seed)
    report = detectors.audit(records)
    assert len(report.findings) > 400
    assert_agrees(report, audit(records))
    assert_ranked(report)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record for record in draw_log(9) if record.model.startswith("my-own")],
        [replace(record, **EMPTY) for record in draw_log(9)],
        draw_log(9)[:1],
    ],
    ids=["no call", "no priced call", "calls without tokens", "one call"],
)
def test_audits_of_nearly_empty_logs_agree(records: list[UsageRecord]) -> None:
    assert_agrees(detectors.audit(records), audit(records))


@pytest.mark.parametrize("seed", sampled(SHUFFLED_SEEDS, 30))
def test_the_order_of_the_rows_changes_no_byte(seed: int) -> None:
    shuffled = list(_log(seed))
    Random(seed).shuffle(shuffled)
    assert detectors.audit(shuffled).to_json() == _report(seed).to_json()


# What the logs are, and how often each of it must occur at least.
drawn = pytest.mark.parametrize(
    ("seeds", "least"), [(SEEDS, 1), pytest.param(MORE_SEEDS, 3, marks=pytest.mark.stress)]
)


@drawn
def test_each_kind_is_found_with_every_confidence_that_it_can_have(
    seeds: range, least: int
) -> None:
    found = Counter(
        (each.kind, each.confidence) for seed in seeds for each in _outcome(seed).findings
    )
    kinds = {(kind, each) for kind, confidences in CONFIDENCES.items() for each in confidences}
    assert set(found) == kinds
    assert min(found.values()) >= least, found


@drawn
def test_every_projection_and_severity_occurs(seeds: range, least: int) -> None:
    outcomes = [_outcome(seed) for seed in seeds]
    kinds = Counter(outcome.projection.kind for outcome in outcomes)
    assert set(kinds) == {"good", "rough", "very rough", "none"}
    severities = {each.severity for outcome in outcomes for each in outcome.findings}
    assert severities == {"high", "medium", "low"}
    assert min(kinds.values()) >= least, kinds


@drawn
def test_every_unusual_case_of_a_log_occurs(seeds: range, least: int) -> None:
    outcomes = [_outcome(seed) for seed in seeds]
    assert sum(outcome.echoes_dropped > 0 for outcome in outcomes) >= least
    assert sum(outcome.overfull_records > 0 for outcome in outcomes) >= least
    assert sum(bool(outcome.projection.strays) for outcome in outcomes) >= least
    assert sum(outcome.projection.span_days > 30 for outcome in outcomes) >= least
    assert sum(bool(outcome.no_longer) for outcome in outcomes) >= least
    assert sum(bool(outcome.only_high) for outcome in outcomes) >= least
    assert sum(bool(outcome.listed.others) for outcome in outcomes) >= least
    assert sum(bool(outcome.unpriced) for outcome in outcomes) >= least
    assert {outcome.equiv_spend for outcome in outcomes} == {True, False}
