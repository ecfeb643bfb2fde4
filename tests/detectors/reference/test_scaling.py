"""Ten copies of a log on ten sets of routes: ten times the dollars, per route the same findings."""

import pytest
from msgspec.structs import replace

import detectors
from detectors import Finding, Report
from detectors.contract import UsageRecord
from tests.cases import data_of
from tests.detectors.reference.builders import (
    HASH,
    answers,
    asked_again,
    bloat,
    bursts,
    capped,
    hashed,
    loop,
    rewritten,
    series,
    unhashed,
)

COPIES = 10

# Each group clears every minimum by far; its quantiles fall on runs of equal values.
PARTS: dict[str, list[UsageRecord]] = {
    "short answers": answers([50] * 40),
    "legacy": answers([900] * 40, model="gpt-4-0613"),
    "hashed": hashed(40, 60.0),
    "unhashed": unhashed([9_000] * 10 + [9_500] * 30),
    "unread": series(
        [4_000.0] * 29,
        6_000,
        900,
        provider="anthropic",
        model="claude-sonnet-4-5",
        cache_write_tokens=4_000,
    ),
    "expiring": rewritten(420.0, prefix_hash=HASH),
    "outgrown": bloat([1_000] * 24 + [10_000] * 16, 100),
    "large": bloat([10_000] * 40, 100),
    "repeated prompt": bursts([40], [5]),
    "sampled prompt": bursts([4] * 10, [5, 6, 7, 8]),
    "repeated shape": series([5.0] * 39, prompt=700, completion=300),
    "asked again": asked_again(20, 15),
    "truncated": capped(200, [200] * 20 + [10] * 20),
    "oversized": capped(4_000, [100] * 40),
    "loop": loop([10.5] * 49),
    "unproven loop": loop([10.5] * 49, hashed_calls=0),
}
TRAFFIC = [
    replace(record, tag=f"{name} {record.tag}") for name, part in PARTS.items() for record in part
]
KINDS = set(data_of(__file__)["kinds"])


def _copies() -> list[UsageRecord]:
    return [
        replace(record, tag=f"{record.tag} #{copy}") for copy in range(COPIES) for record in TRAFFIC
    ]


def _by_route(report: Report) -> dict[tuple[str, ...], tuple[object, ...]]:
    return {
        (each.detector, each.kind, each.route.partition(" #")[0], each.model): _figures(each)
        for each in report.findings
    }


def _figures(finding: Finding) -> tuple[object, ...]:
    return (
        finding.calls,
        finding.confidence,
        finding.severity,
        finding.impact_low,
        finding.monthly_cost_impact_usd,
        finding.impact_high,
        finding.first_seen,
        finding.last_seen,
    )


def test_ten_copies_on_other_routes_have_the_same_findings_each() -> None:
    one, ten = detectors.audit(TRAFFIC), detectors.audit(_copies())
    assert {each.kind for each in one.findings} == KINDS
    listed = len(one.findings)
    assert len(ten.findings) + sum(rest.informational for rest in ten.remainders) == COPIES * listed
    before, after = _by_route(one), _by_route(ten)
    assert all(before[key] == figures for key, figures in after.items())


def test_ten_copies_on_other_routes_cost_and_save_ten_times_as_much() -> None:
    one, ten = detectors.audit(TRAFFIC).audit, detectors.audit(_copies()).audit
    for name in (
        "total_spend_usd",
        "projected_spend_usd",
        "verified_savings_usd",
        "estimated_savings_usd",
        "estimated_savings_low_usd",
        "estimated_savings_high_usd",
        "conditional_savings_usd",
        "conditional_savings_high_usd",
    ):
        assert float(getattr(ten, name)) == pytest.approx(COPIES * float(getattr(one, name)))
    assert ten.savings_pct == pytest.approx(one.savings_pct)
    assert (ten.projection, ten.monthly_factor) == (one.projection, one.monthly_factor)
