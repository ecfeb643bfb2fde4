"""Ten time-shifted copies of a log: ten times the dollars seen, the same monthly dollars."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

import detectors
from detectors import Report
from detectors.contract import UsageRecord
from tests.detectors.reference.audit import observed_days
from tests.detectors.reference.builders import (
    HASH,
    answers,
    bloat,
    call,
    capped,
    loop,
    series,
    unhashed,
)
from tests.detectors.reference.test_agreement import KINDS

COPIES = 10


def _unread_writes() -> list[UsageRecord]:
    plain = series([2_000.0] * 29, prompt=6_000, completion=900)
    model = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
    return [call(record.ts, 6_000, 900, cache_write_tokens=4_000, **model) for record in plain]


# Each group clears every minimum by far; its quantiles fall on runs of equal values.
PARTS: dict[str, list[UsageRecord]] = {
    "overkill": answers([50] * 40),
    "hashed": series([60.0] * 39, prompt=2_000, completion=900, prefix_hash=HASH),
    "unhashed": unhashed([9_000] * 10 + [9_500] * 30),
    "unread": _unread_writes(),
    "bloat": bloat([10_000] * 40, 100),
    "repeated prompt": series([5.0] * 39, prompt=500, completion=5, prefix_hash=HASH),
    "repeated shape": series([5.0] * 39, prompt=700, completion=300),
    "truncated": capped(200, [200] * 20 + [10] * 20),
    "oversized": capped(4_000, [100] * 40),
    "loop": loop([10.5] * 49),
    "unproven loop": loop([10.5] * 49, hashed_calls=0),
}
TRAFFIC = [
    replace(record, tag=f"{name} {record.tag}") for name, part in PARTS.items() for record in part
]


def _copies(records: list[UsageRecord]) -> list[UsageRecord]:
    """Each copy begins on the day after the last one's last."""
    days = observed_days(records)
    return [
        replace(record, ts=record.ts + timedelta(days=days * copy))
        for copy in range(COPIES)
        for record in records
    ]


def _by_finding(report: Report) -> dict[tuple[str, ...], tuple[float, float, int]]:
    return {
        (each.detector, each.kind, each.route, each.provider, each.model): (
            float(each.monthly_cost_impact_usd),
            float(each.observed_cost_impact_usd),
            each.calls,
        )
        for each in report.findings
    }


def test_ten_copies_give_ten_times_the_dollars_and_the_same_findings() -> None:
    one, ten = detectors.audit(TRAFFIC), detectors.audit(_copies(TRAFFIC))
    before, after = _by_finding(one), _by_finding(ten)
    assert {key[:2] for key in before} == KINDS
    assert len(ten.findings) == len(one.findings) == len(before)
    for finding, (monthly, observed, calls) in before.items():
        monthly_after, observed_after, calls_after = after[finding]
        assert monthly_after == pytest.approx(monthly, rel=1e-9, abs=2e-9)
        assert observed_after == pytest.approx(COPIES * observed, rel=1e-9, abs=2e-8)
        assert calls_after == COPIES * calls


def test_ten_copies_give_the_same_totals() -> None:
    one, ten = detectors.audit(TRAFFIC).audit, detectors.audit(_copies(TRAFFIC)).audit
    assert ten.records == COPIES * one.records
    assert ten.observed_days == COPIES * one.observed_days
    assert float(ten.total_spend_usd) == pytest.approx(COPIES * float(one.total_spend_usd))
    assert float(ten.projected_spend_usd) == pytest.approx(float(one.projected_spend_usd))
    assert ten.savings_pct == pytest.approx(one.savings_pct)
