"""Logs that are audited together: each report is the one that the log has alone."""

import random
from functools import cache
from typing import Any

import pytest

import detectors
from detectors.errors import TooFewValidRowsError
from detectors.frames import UsageLog
from detectors.frames.sources import read

MODELS = (
    ("openai", "gpt-4o"),
    ("anthropic", "claude-sonnet-4-5"),
    ("google", "gemini-2.5-pro"),
    ("mylocal", "unknown"),
)


def _calls(randomness: random.Random, count: int) -> list[dict[str, Any]]:
    """Calls with bursts, long prompts, caches, limits, equal rows and models without a price."""
    calls, seconds = [], 0
    for _ in range(count):
        seconds += randomness.choice((0, 1, 2, 10, 400, 40_000))
        provider, model = randomness.choice(MODELS)
        call = {
            "ts": f"2026-02-{1 + seconds // 86_400 % 27:02d}T{seconds // 3_600 % 24:02d}:"
            f"{seconds // 60 % 60:02d}:{seconds % 60:02d}Z",
            "provider": provider,
            "model": model,
            "prompt_tokens": randomness.choice((100, 2_000, 30_000, 250_000)),
            "completion_tokens": randomness.choice((5, 20, 100, 900)),
            "tag": randomness.choice("abc"),
            "prefix_hash": randomness.choice((None, "a" * 64, "B" * 64)),
            "declared_max_tokens": randomness.choice((None, 100, 4_096)),
            "cached_tokens": randomness.choice((None, 50)),
            "cache_write_tokens": randomness.choice((None, None, 40)),
            "request_id": randomness.choice((None, "1", "2")),
        }
        calls.append(call)
    return calls


@cache
def _logs() -> list[UsageLog]:
    randomness = random.Random(5)
    counts = (60, 1, 300, 0, 120, 30, 500, 60, 8)
    logs = [read(_calls(randomness, count)) for count in counts]
    broken = [{**call, "prompt_tokens": -1} for call in _calls(randomness, 2)]
    return [*logs, read([*_calls(randomness, 40), *broken])]


def test_every_report_is_the_one_of_the_log_alone() -> None:
    logs = _logs()
    alone = [detectors.audit(log).to_json() for log in logs]
    together = detectors.audit_many(logs)
    assert [report.to_json() for report in together] == alone
    assert sum(len(report.findings) for report in together) > 20
    # The same plans serve other logs.
    logs = _logs()
    first = [report.to_json() for report in detectors.audit_many(logs)]
    backwards = [report.to_json() for report in detectors.audit_many(logs[::-1])]
    assert backwards[::-1] == first
    # Other thresholds are not mixed up.
    log = _logs()[2]
    strict = detectors.Thresholds(floor_usd=1_000_000.0)
    before = detectors.audit(log)
    assert not [f for f in detectors.audit(log, thresholds=strict).findings if f.formula]
    assert detectors.audit(log) == before


def test_calls_of_different_logs_are_never_compared() -> None:
    """Bloat is a comparison within an audit: alone, neither log has two routes."""
    short = [{"prompt_tokens": 100, "tag": "short"}] * 40
    long = [{"prompt_tokens": 10_000, "tag": "long"}] * 20
    logs = [
        read(
            [
                {
                    "ts": f"2026-02-01T00:{number:02d}:00Z",
                    "provider": "openai",
                    "model": "gpt-4o",
                    "completion_tokens": 50,
                    **call,
                }
                for number, call in enumerate(calls)
            ]
        )
        for calls in (short, long, [*short, *long][:60])
    ]
    found = [{f.detector for f in report.findings} for report in detectors.audit_many(logs)]
    assert "d3_context_bloat" not in found[0] | found[1]
    assert "d3_context_bloat" in found[2]


def test_a_log_with_few_valid_rows_ends_the_audit() -> None:
    bad = read([{"prompt_tokens": -1}, {"prompt_tokens": -2}])
    with pytest.raises(TooFewValidRowsError):
        detectors.audit_many([_logs()[0], bad])


@pytest.mark.parametrize("count", [0, 1])
def test_few_logs_need_no_company(count: int) -> None:
    logs = _logs()[:count]
    assert detectors.audit_many(logs) == [detectors.audit(log) for log in logs]
