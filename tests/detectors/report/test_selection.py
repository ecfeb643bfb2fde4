"""What a report lists as findings, what it only counts, and the calls behind a finding."""

from decimal import Decimal
from typing import Any

import pytest

import detectors
from detectors import CallsUnavailableError, Report
from tests.detectors.report.test_report import HASH, MILLIONTH, calls

DAY = 86_400


def bursts(routes: int, *, at: float = 0, size: int = 3) -> list[dict[str, Any]]:
    """Equal prompts three times within seconds: two of them are duplicates, on each route."""
    return [
        call
        for number in range(routes)
        for call in calls(
            size, at=at, tag=f"route-{number:05}", completion_tokens=500, prefix_hash=HASH
        )
    ]


def steady(days: int, **fields: Any) -> list[dict[str, Any]]:
    """One call every eight hours, each with a prompt of its own length."""
    quiet = calls(days * 3, every=8 * 3_600, tag="steady", completion_tokens=900, **fields)
    return [call | {"prompt_tokens": 900 + number} for number, call in enumerate(quiet)]


def duplicates(report: Report) -> list[detectors.Finding]:
    return [each for each in report.findings if each.detector == "d4_duplicate_calls"]


def test_a_finding_that_ended_before_the_window_is_no_longer_happening() -> None:
    report = detectors.audit(bursts(1, at=5 * DAY) + steady(60))
    assert duplicates(report) == []
    (past,) = [each for each in report.no_longer_happening if each.detector == "d4_duplicate_calls"]
    # Two repeated calls of 500 tokens in and 500 out: 1,250 + 7,500 millionths each.
    assert (past.route, past.observed_cost_impact_usd) == ("route-00000", 17_500 * MILLIONTH)
    assert past.first_seen < past.last_seen == "2026-11-07T00:00:02Z"
    assert report.audit.verified_savings_usd == 0


def test_dollars_are_those_of_the_window_and_times_those_of_the_whole_log() -> None:
    log = bursts(1, at=5 * DAY) + bursts(1, at=55 * DAY, size=5) + steady(60)
    report = detectors.audit(log)
    (finding,) = duplicates(report)
    assert (finding.calls, finding.observed_cost_impact_usd) == (4, 35_000 * MILLIONTH)
    assert finding.monthly_cost_impact_usd == finding.observed_cost_impact_usd
    assert (finding.first_seen, finding.last_seen) == (
        "2026-11-07T00:00:01Z",
        "2026-12-27T00:00:04Z",
    )
    assert report.audit.monthly_factor == 1
    assert len(finding.evidence) == 4
    assert report.calls(finding).height == 4


def test_an_outlier_changes_no_monthly_figure() -> None:
    log = bursts(2, at=DAY) + steady(14)
    lonely = calls(1, at=-25 * 365 * DAY, tag="lonely", prompt_tokens=77)
    usual, odd = detectors.audit(log), detectors.audit(log + lonely)
    assert odd.audit.outlier_calls == 1
    assert odd.audit.outlier_times == ("2001-11-08T00:00:00Z",)
    for name in ("projected_spend_usd", "monthly_factor", "verified_savings_usd", "observed_days"):
        assert getattr(odd.audit, name) == getattr(usual.audit, name)
    assert odd.audit.total_spend_usd > usual.audit.total_spend_usd


def test_the_most_expensive_findings_are_listed_and_the_others_counted() -> None:
    thresholds = detectors.Thresholds(max_findings=3, floor_usd=0)
    log = bursts(5, at=DAY) + bursts(2, at=2 * DAY) + steady(14)
    report = detectors.audit(log, thresholds=thresholds)
    priced = [each for each in report.findings if each.monthly_cost_impact_usd]
    assert len(priced) == 3
    assert sum(rest.findings for rest in report.remainders) >= 2
    everything = detectors.audit(log, thresholds=detectors.Thresholds(floor_usd=0))
    for name in ("verified_savings_usd", "estimated_savings_usd", "conditional_savings_usd"):
        assert getattr(report.audit, name) == getattr(everything.audit, name)
    total = sum(each.monthly_cost_impact_usd for each in everything.findings)
    listed = sum(each.monthly_cost_impact_usd for each in report.findings)
    assert total == listed + sum(rest.monthly_cost_impact_usd for rest in report.remainders)


def test_informational_findings_are_bounded_by_the_spend_of_their_calls() -> None:
    log = [
        call
        for number in range(4)
        for call in calls(
            20 + number, every=3_600, tag=f"r{number}", completion_tokens=600,
            declared_max_tokens=9_000,
        )
    ]  # fmt: skip
    thresholds = detectors.Thresholds(max_informational_findings=2)
    report = detectors.audit(log, thresholds=thresholds)
    assert [each.route for each in report.findings if each.kind == "oversized_cap"] == ["r3", "r2"]
    (rest,) = [each for each in report.remainders if each.informational]
    assert (rest.detector, rest.informational) == ("d5_max_tokens_misfit", 2)


@pytest.mark.parametrize("routes", [2_000, pytest.param(10_000, marks=pytest.mark.stress)])
def test_thousands_of_routes_give_a_report_of_bounded_size(routes: int) -> None:
    report = detectors.audit(bursts(routes), thresholds=detectors.Thresholds(floor_usd=0))
    assert len(report.findings) <= 450
    assert len(report.to_json()) <= 1_500_000
    assert sum(rest.findings for rest in report.remainders) >= routes - 400


def test_the_calls_of_a_finding_add_up_to_its_dollars() -> None:
    report = detectors.audit(bursts(3, at=DAY, size=4) + steady(14, request_id="r-1"))
    assert report.findings
    for finding in report.findings:
        behind = report.calls(finding)
        assert behind.height == finding.calls
        saved = Decimal(behind["saving_usd"].sum())
        assert round(saved, 9) == finding.observed_cost_impact_usd
        assert behind["ts"].is_sorted()
    assert report.calls(report.findings[0].id).equals(report.calls(report.findings[0]))


def test_a_report_without_its_calls_says_so() -> None:
    report = detectors.audit(bursts(1))
    finding = report.findings[0]
    read = Report.from_json(report.to_json())
    lean = detectors.audit(bursts(1), keep_calls=False)
    for each in (read, lean):
        assert each == report
        with pytest.raises(CallsUnavailableError, match=r"Audit the log again"):
            each.calls(finding)
    with pytest.raises(KeyError, match="no finding with this ID"):
        report.calls("d9-999")
