"""What the detectors stay quiet on."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

import detectors
from detectors import Report, Thresholds
from detectors.contract import UsageRecord
from tests.cases import each_case
from tests.detectors.reference.audit import audit
from tests.detectors.reference.compare import assert_agrees
from tests.detectors.reference.limits import Limits
from tests.worker.support.promises import sampled

START = datetime(2026, 10, 6, 9, 0, tzinfo=UTC)
HASH = "cd" * 32
NO_FLOOR = Thresholds(floor_usd=0)
MODELS = (
    ("openai", "gpt-5.4-nano"),
    ("openai", "gpt-5-nano"),
    ("google", "gemini-2.5-flash-lite"),
    ("google", "gemini-3.5-flash-lite"),
    ("anthropic", "claude-haiku-4-5"),
    ("anthropic", "claude-haiku-5-5"),
)


def _clean_call(rng: Random, number: int) -> UsageRecord:
    """Return a long answer of a cheap model to a prompt whose head is read from the cache."""
    provider, model = MODELS[number % len(MODELS)]
    is_first = number < len(MODELS)
    return UsageRecord(
        ts=START + timedelta(seconds=0 if is_first else rng.uniform(1, 7 * 86_400)),
        provider=provider,
        model=model,
        tag=f"route-{number % len(MODELS)}",
        request_id=f"req-{number}",
        prompt_tokens=rng.randint(4_600, 7_000),
        completion_tokens=rng.randint(300, 1_900),
        cached_tokens=None if is_first else 4_224,
        cache_write_tokens=4_224 if is_first else None,
        declared_max_tokens=4_096,
        prefix_hash=f"{number % len(MODELS):064x}",
        latency_ms=rng.uniform(900, 9_000),
    )


@pytest.mark.parametrize(
    ("seed", "calls"),
    [(0, 600), *(pytest.param(seed, 3_000, marks=pytest.mark.stress) for seed in range(5))],
)
def test_clean_traffic_gives_no_priced_finding(seed: int, calls: int) -> None:
    rng = Random(seed)
    records = [_clean_call(rng, number) for number in range(calls)]
    report = detectors.audit(records)
    assert [each for each in report.findings if each.confidence != "INFORMATIONAL"] == []
    assert report.audit.below_floor == 0
    assert report.audit.savings_pct == 0
    assert_agrees(report, audit(records))


def _chatbot(seed: int, shortest: int, prefix_hash: str | None) -> Report:
    """2,000 different questions within an hour behind one system prompt, of 16 lengths."""
    rng = Random(seed)
    lengths = [shortest + 23 * step for step in range(16)]
    return detectors.audit(
        UsageRecord(
            ts=START + timedelta(seconds=rng.uniform(0, 3_600)),
            provider="openai",
            model="gpt-5.4-mini",
            endpoint="/v1/chat/completions",
            prompt_tokens=rng.choice(lengths),
            completion_tokens=rng.randint(15, 450),
            prefix_hash=prefix_hash,
        )
        for _ in range(2_000)
    )


@pytest.mark.parametrize("seed", sampled(range(5), 5))
@pytest.mark.parametrize("shortest", [430, 1_100])
@pytest.mark.parametrize("prefix_hash", [HASH, None])
def test_different_questions_to_one_chatbot_are_not_duplicates(
    seed: int, shortest: int, prefix_hash: str | None
) -> None:
    report = _chatbot(seed, shortest, prefix_hash)
    assert "d4_duplicate_calls" not in {finding.detector for finding in report.findings}
    assert "d6_chatty_loop" not in {finding.detector for finding in report.findings}


def _at(seconds: float, **changes: object) -> UsageRecord:
    fields: dict[str, object] = {
        "ts": START + timedelta(seconds=seconds),
        "provider": "openai",
        "model": "gpt-4.1",
        "tag": "route",
        "prompt_tokens": 2_000,
        "completion_tokens": 900,
    }
    return UsageRecord(**{**fields, **changes})  # type: ignore[arg-type]


def _kinds(records: list[UsageRecord]) -> set[str]:
    report = detectors.audit(records, thresholds=NO_FLOOR)
    assert_agrees(report, audit(records, Limits.of(NO_FLOOR)))
    return {finding.detector + "." + finding.kind for finding in report.findings}


QUIET: dict[str, Callable[[], list[UsageRecord]]] = {
    # Calls of one second cannot read what another of them writes.
    "parallel calls share no cache": lambda: [
        _at(second, prefix_hash=HASH, prompt_tokens=2_000 + number)
        for number, second in enumerate([0.0, 0.3, 0.9])
    ],
    "cached calls have nothing to cache": lambda: [
        _at(60 * number, prefix_hash=HASH, cached_tokens=1_024) for number in range(9)
    ],
    "a provider that caches automatically found no prefix": lambda: [
        _at(60 * number, prompt_tokens=9_000 + 7 * number) for number in range(40)
    ],
    "a deliberate classifier": lambda: [
        _at(900 * number, completion_tokens=1, declared_max_tokens=1, model="gpt-5-nano")
        for number in range(40)
    ],
    "a single route is its own norm": lambda: [
        _at(900 * number, prompt_tokens=500 if number % 3 else 50_000) for number in range(60)
    ],
    "an unpriced model": lambda: [
        _at(number, model="of-our-own", completion_tokens=40) for number in range(40)
    ],
}


@each_case("case", QUIET)
def test_it_stays_quiet_on(case: str) -> None:
    assert _kinds(QUIET[case]()) == set()


def test_the_nearest_earlier_second_counts_and_not_the_exact_time() -> None:
    """300.9 s apart, yet 300 whole seconds: the later call would have read the cache."""
    near = [_at(seconds, prefix_hash=HASH) for seconds in (0.05, 300.95, 601.9)]
    far = [_at(seconds, prefix_hash=HASH) for seconds in (0.95, 301.05, 602.9)]
    assert _kinds(near) == {"d2_missed_caching.uncached_prefix"}
    assert _kinds(far) == set()
