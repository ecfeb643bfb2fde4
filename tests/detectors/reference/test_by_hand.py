"""The reference against dollars worked out by hand from the definitions."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from detectors.contract import UsageRecord
from tests.cases import each_case
from tests.detectors.reference.audit import Outcome, audit
from tests.detectors.reference.builders import (
    CLAUDE,
    HASH,
    START,
    answers,
    asked_again,
    at,
    bloat,
    bursts,
    call,
    loop,
    series,
    unhashed,
)
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.reporting import Found

MTOK = 1e6
NO_FLOOR = Limits(floor_usd=0)


def _found(records: Sequence[UsageRecord], kind: str, outcome: Outcome | None = None) -> Found:
    outcome = outcome or audit(records, NO_FLOOR)
    [found] = [found for found in outcome.findings if found.kind == kind]
    return found


def _dollars(found: Found) -> tuple[float, float, float]:
    """Return low, stated and high as observed, before they are projected to a month."""
    factor = found.monthly / found.observed
    return found.low / factor, found.observed, found.high / factor


def test_short_answers_cost_less_at_the_next_cheaper_model() -> None:
    # gpt-4.1: $2 and $8; gpt-4.1-mini: $0.40 and $1.60. The answer of 500 counts only at the top.
    found = _found([], "short_answers", audit(answers([100] * 19 + [500]), NO_FLOOR))
    each = (100 * 1.6 + 100 * 6.4) / MTOK
    top = 19 * each + (100 * 1.6 + 500 * 6.4) / MTOK
    assert (found.calls, found.suggested_model) == (19, "gpt-4.1-mini")
    assert _dollars(found) == pytest.approx((0, 19 * each, top))
    # Answers that only the upper limits allow are no finding but in the upper sum.
    outcome = audit(answers([200] * 5))
    assert outcome.findings == ()
    conditional = outcome.sums.conditional
    assert (conditional.low, conditional.stated) == (0, 0)
    assert conditional.high == pytest.approx(5 * (100 * 1.6 + 200 * 6.4) / MTOK)
    # Reasoning is no part of a short answer.
    records = answers([700] * 5, model="gpt-5.4", reasoning_tokens=600)
    assert _found(records, "short_answers").calls == 5
    # Any answer of a replaced model counts.
    # claude-3-opus: $15 and $75; claude-opus-5-5: $4 and $20.
    records = answers([3_000] * 5, provider="anthropic", model="claude-3-opus")
    found = _found(records, "legacy_model")
    saving = 5 * (100 * 11 + 3_000 * 55) / MTOK
    assert _dollars(found) == pytest.approx((0, saving, saving))


def test_a_prompt_over_the_targets_window_does_not_count() -> None:
    model = {"provider": "anthropic", "model": "claude-sonnet-4-6"}
    records = [at(2_000.0 * number, 199_900 + number, 98, **model) for number in range(5)]
    assert _found(records, "short_answers").calls == 3


def test_prefixes_are_read_from_the_cache_where_that_pays() -> None:
    # Prompts of 2,000, 2,500 and 3,000 tokens, answers of 400: each call continues the one before.
    # The second reads 2,000 and so the first writes them; the third reads 2,500, 500 of them new.
    records = [at(60.0 * n, 2_000 + 500 * n, 400, prefix_hash=HASH, **CLAUDE) for n in range(3)]
    found = _found(records, "uncached_prefix")
    saving = (4_500 * 2.7 - 2_500 * 0.75) / MTOK
    low = (4_500 * 2.7 - (2_000 + 500 + 500) * 0.75) / MTOK
    assert (found.calls, found.confidence) == (3, "ESTIMATED")
    assert _dollars(found) == pytest.approx((low, saving, saving))
    # Long prompts without a hash claim nothing.
    found = _found(unhashed([2_048] * 20), "unhashed_prefix")
    assert (found.confidence, found.calls, found.monthly) == ("INFORMATIONAL", 20, 0)
    # Writes that nothing reads are verified.
    writes = {"cache_write_tokens": 4_000, "cache_write_1h_tokens": 1_000, **CLAUDE}
    found = _found(series([4_000.0] * 2, 6_000, 900, **writes), "unread_writes")
    loss = 3 * (3_000 * 0.75 + 1_000 * 3) / MTOK
    assert found.confidence == "VERIFIED"
    assert _dollars(found) == pytest.approx((loss, loss, loss))


def test_a_shared_system_prompt_is_read_as_far_as_the_longest_equal_hash() -> None:
    shared = {"prefix_hash": HASH, "prefix_hash_16k": "cd" * 32, **CLAUDE}
    records = [at(60.0 * n, 6_000, 3_000, **shared) for n in range(2)]
    found = _found(records, "uncached_prefix")
    assert found.observed == pytest.approx(4_096 * (2.7 - 0.75) / MTOK)


def test_a_lone_call_of_a_hash_pays_for_a_write_that_nothing_reads() -> None:
    records = [at(s, 6_000, 3_000, prefix_hash=HASH, **CLAUDE) for s in (0.0, 60.0, 900.0)]
    found = _found(records, "uncached_prefix")
    assert found.observed == pytest.approx(1_024 * (2.7 - 0.75 - 0.75) / MTOK)
    assert found.low == 0  # 6,000 tokens written by each would cost more than is read


def test_a_job_every_seven_minutes_needs_a_longer_lifetime() -> None:
    # Every call writes 10,000 tokens; the eight after the first would read them instead.
    records = series(
        [420.0] * 8, 12_000, 900, prefix_hash=HASH, cache_write_tokens=10_000, **CLAUDE
    )
    found = _found(records, "short_lifetime")
    saving = (8 * 10_000 * (3.75 - 0.3) - 10_000 * (6 - 3.75)) / MTOK
    assert _dollars(found) == pytest.approx((saving / 2, saving, saving))


def test_a_route_that_usually_has_normal_prompts_has_outgrown_them() -> None:
    found = _found(bloat([1_000] * 8 + [10_000] * 4, 40), "outgrown")
    saving = 4 * 0.5 * 9_000 * 0.05 / MTOK  # gpt-5-nano: $0.05
    assert found.calls == 4
    assert _dollars(found) == pytest.approx((0, saving, saving * 8))
    assert _found(bloat([10_000] * 12, 40), "large_prompts").monthly == 0


@each_case(
    ("sizes", "completions", "confidence"),
    [
        ([4], [5], "VERIFIED"),
        ([4], [5, 6, 7, 8], "ESTIMATED"),
        ([4, 4, 4], [5, 6, 7, 8], "INFORMATIONAL"),
        ([4, 4, 5], [5, 6, 7, 8, 9], "ESTIMATED"),
        ([4, 4, 4], [5, 5, 5, 8], "VERIFIED"),
    ],
)
def test_a_burst_is_as_sure_as_its_answers_are_equal(
    sizes: list[int], completions: list[int], confidence: str
) -> None:
    assert _found(bursts(sizes, completions), "same_prompt").confidence == confidence


def test_repetitions_and_loops_cost_what_they_repeat() -> None:
    found = _found(series([10.0] * 2, 2_000, 300), "same_shape")
    cost = 2 * (2_000 * 2 + 300 * 8) / MTOK
    assert _dollars(found) == pytest.approx((0, cost, cost))
    # A cut answer that is asked for again was thrown away.
    found = _found(asked_again(cut=10, repeats=5), "truncated")
    saving = 5 * (1_000 * 2 + 200 * 8) / MTOK
    assert found.calls == 10
    assert _dollars(found) == pytest.approx((saving / 2, saving, 3.5 * saving))
    assert _found(asked_again(cut=10, repeats=1), "truncated").confidence == "INFORMATIONAL"
    # A cut answer that is continued costs its prompt again.
    records = [at(2_000.0 * n, 1_000, 200, declared_max_tokens=200) for n in range(5)]
    records += [at(2_000.0 * n + 9, 1_200, 200) for n in range(5)]
    found = _found(records, "truncated")
    assert found.observed == pytest.approx(5 * 1_000 * 2 / MTOK)
    # A loop could share requests.
    found = _found(loop([10.5] * 9), "hashed")
    tokens = sum(1_500 + n for n in range(10) if n % 5)
    assert found.calls == 8
    assert _dollars(found) == pytest.approx(tuple(f * tokens * 2 / MTOK for f in (0.25, 0.5, 0.8)))
    assert _found(loop([10.5] * 9, hashed_calls=4), "unhashed").calls == 8
    assert audit(loop([10.5] * 9, latency_ms=10_760)).findings[0].detector != "d6_chatty_loop"


@each_case(
    ("count", "gap", "kind"),
    [
        (30, 3_600.0, "rough"),  # the mean gap belongs to the span: 30 hours
        (24, 3_600.0, "none"),
        (30, 120.0, "very rough"),
        (30, 119.9, "none"),
        (31, 20_160.0, "good"),
    ],
)
def test_the_span_decides_how_dollars_are_projected(count: int, gap: float, kind: str) -> None:
    period = audit(series([gap] * (count - 1))).projection
    assert period.kind == kind
    assert period.span_days == pytest.approx(count * gap / 86_400, rel=1e-3)
    assert period.factor == (1 if kind == "none" else pytest.approx(30 / period.span_days))


@each_case(("strays", "left_out"), [(1, 1), (2, 2), (3, 0)])
def test_a_few_calls_of_another_year_change_no_projection(strays: int, left_out: int) -> None:
    usual = series([600.0] * 199)
    odd = [call(START - timedelta(days=9_000 + n), 100, 50) for n in range(strays)]
    period = audit(usual + odd).projection
    assert len(period.strays) == left_out
    assert (period.kind, round(period.factor, 2)) == (
        ("rough", round(30 / (200 * 600 / 86_400), 2)) if left_out else ("good", 1.0)
    )


def test_a_route_that_stopped_is_no_finding() -> None:
    old = answers([100] * 5, tag="old")
    now = answers([100] * 5)
    later = [call(record.ts + timedelta(days=40), 100, 100) for record in now]
    many = [call(START + timedelta(days=d), 100, 900, tag="filler") for d in range(40)]
    outcome = audit(old + later + many, NO_FLOOR)
    assert [found.route for found in outcome.findings] == ["route"]
    assert [gone.group[0] for gone in outcome.no_longer] == ["old"]


def test_no_dollar_counts_twice() -> None:
    # A repeated call costs $c; its model's successor saves a share of what the repetition leaves.
    legacy = {"provider": "anthropic", "model": "claude-3-opus", "prefix_hash": HASH}
    outcome = audit(series([5.0] * 4, 700, 300, **legacy))
    cost = (700 * 15 + 300 * 75) / MTOK
    less = (700 * 11 + 300 * 55) / MTOK
    assert outcome.sums.verified.stated == pytest.approx(4 * cost)
    assert outcome.sums.conditional.stated == pytest.approx(less)
    assert outcome.savings_pct == pytest.approx(80)
