"""The report document: totals, composition, order, evidence and words, worked out by hand.

gpt-5.4 costs $2.50 in and $15 out per million tokens, the cheaper gpt-5.4-mini $0.75 and $4.50;
claude-opus-4-8 $5 and $25 (a cache read $0.50, a write $6.25), claude-sonnet-5 $2 and $10.
"""

import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from genai_prices.data_snapshot import DataSnapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider

import detectors
from detectors import Finding, Report
from detectors.contract import InvalidRow, InvalidRows
from tests.cases import each_case
from tests.detectors.reports import make_finding, make_report
from tests.detectors.rules.case import START

HASH = "a" * 64
MILLIONTH = Decimal("0.000001")


def calls(times: int, *, at: float = 0, every: float = 1, **fields: Any) -> list[dict[str, Any]]:
    """Calls of one route: 500 tokens in, 100 out, so each costs 1,250 + 1,500 millionths."""
    defaults = {
        "provider": "openai",
        "model": "gpt-5.4",
        "tag": "labels",
        "prompt_tokens": 500,
        "completion_tokens": 100,
    }
    moments = (START + timedelta(seconds=at + place * every) for place in range(times))
    return [defaults | fields | {"ts": ts.isoformat()} for ts in moments]


HOURLY = calls(31, every=3_600)
NO_FLOOR = detectors.Thresholds(floor_usd=0)


def find(report: Report, detector: str, kind: str = "") -> Finding:
    return next(
        finding
        for finding in report.findings
        if finding.detector.startswith(detector) and kind in ("", finding.kind)
    )


def test_totals_are_the_sums_and_few_calls_are_not_projected() -> None:
    log = calls(2, every=86_400 * 2) + calls(1, tag="", endpoint="/v1/chat", model="gpt-5.4-mini")
    report = detectors.audit(log)
    # 2 x 2,750 + (500 x 0.75 + 100 x 4.50) = 5,500 + 825 millionths in three days.
    assert report.audit.total_spend_usd == 6_325 * MILLIONTH
    assert report.audit.observed_days == 3
    assert report.audit.projected_spend_usd == 6_325 * MILLIONTH
    assert (report.audit.first_call, report.audit.last_call) == (
        "2026-11-02T00:00:00Z",
        "2026-11-04T00:00:00Z",
    )
    assert [(line.provider, line.model, line.calls) for line in report.spend_by_model] == [
        ("openai", "gpt-5.4", 2),
        ("openai", "gpt-5.4-mini", 1),
    ]
    assert [(line.route, line.spend_usd) for line in report.spend_by_route] == [
        ("labels", 5_500 * MILLIONTH),
        ("/v1/chat", 825 * MILLIONTH),
    ]
    assert [(line.day, line.calls) for line in report.spend_by_day] == [
        ("2026-11-02", 2),
        ("2026-11-04", 1),
    ]


def test_a_model_that_costs_nothing_has_no_priced_findings() -> None:
    free = ModelPrice(input_mtok=Decimal(0), output_mtok=Decimal(0))
    model = ModelInfo(id="gpt-5.4", match=ClauseEquals("gpt-5.4"), prices=free)
    provider = Provider(id="openai", name="OpenAI", api_pattern="openai", models=[model])
    book = detectors.PriceBook(DataSnapshot(providers=[provider], from_auto_update=False))
    report = detectors.audit(calls(30, declared_max_tokens=9_000), prices=book)
    assert {finding.confidence for finding in report.findings} == {"INFORMATIONAL"}
    assert report.audit.total_spend_usd == 0
    assert report.audit.savings_pct == 0
    assert (report.audit.below_floor, report.unpriced) == (0, ())


def _many() -> list[dict[str, Any]]:
    """Routes of equal and of unequal impact."""
    return [
        call
        for place, tag in enumerate(["d", "b", "c", "a"])
        for call in calls(5 + place // 2, every=3_600, tag=tag)
    ]


def test_ids_of_a_thousand_findings_sort_by_number() -> None:
    log = [call for place in range(1_000) for call in calls(5, every=3_600, tag=f"{place:04}")]
    thresholds = detectors.Thresholds(max_findings=1_000)
    ids = [finding.id for finding in detectors.audit(log, thresholds=thresholds).findings]
    assert ids == [f"d1-{number:04}" for number in range(1, 1_001)]


def test_evidence_is_at_most_the_twenty_most_expensive_calls() -> None:
    log = calls(30, every=3_600) + calls(1, at=7, completion_tokens=140, cached_tokens=100)
    evidence = detectors.audit(log).findings[0].evidence
    assert len(evidence) == 20
    # 400 x 2.50 + 100 x 0.25 + 140 x 15 = 3,125 millionths, of which 2,187.5 saved.
    assert msgspec.to_builtins(evidence[0]) == {
        "ts": "2026-11-02T00:00:07Z",
        "model": "gpt-5.4",
        "prompt_tokens": 500,
        "completion_tokens": 140,
        "cached_tokens": 100,
        "cache_write_tokens": 0,
        "declared_max_tokens": 0,
        "cost_usd": "0.003125000",
        "saving_usd": "0.002187500",
    }
    assert [call.ts for call in evidence[1:]] == sorted(call.ts for call in evidence[1:])


def test_documents_read_back_and_evidence_can_be_turned_off() -> None:
    thresholds = detectors.Thresholds(evidence_calls=0)
    report = detectors.audit(_many(), thresholds=thresholds)
    assert {finding.evidence for finding in report.findings} == {()}
    assert (report.thresholds, report.prices.source) == (thresholds, "genai-prices")
    # The document reads back as it was written.
    report = detectors.audit(_mixed())
    assert Report.from_json(report.to_json()).to_json() == report.to_json()


def _mixed() -> list[dict[str, Any]]:
    """All kinds of call, with ties in time and amounts that no float holds exactly."""
    chooser = random.Random(7)
    return [
        call
        for _ in range(40)
        for call in calls(
            chooser.choice([3, 12, 25]),
            at=chooser.randrange(0, 86_400, 60),
            every=chooser.choice([0, 0.3, 7, 60]),
            tag=chooser.choice(["", "a", "b"]),
            model=chooser.choice(["gpt-5.4", "gpt-5.4-mini", "o3"]),
            prompt_tokens=chooser.choice([333, 2_077, 77_777]),
            completion_tokens=chooser.choice([7, 91, 777]),
            declared_max_tokens=chooser.choice([0, 91, 9_999]),
            prefix_hash=chooser.choice([None, HASH, "b" * 64]),
        )
    ]


def test_a_log_without_calls_or_prices_has_an_empty_report() -> None:
    report = detectors.audit(calls(30, model="unheard-of"))
    assert (report.findings, report.spend_by_day, report.audit.savings_pct) == ((), (), 0.0)
    assert report.audit.records == 30
    # No calls at all.
    report = detectors.audit([])
    assert (report.audit.records, report.audit.observed_days) == (0, 1)
    assert (report.audit.first_call, report.audit.last_call) == (None, None)
    # It says how each detector works.
    assert [one.detector[:2] for one in report.methods] == ["d1", "d2", "d3", "d4", "d5", "d6"]
    assert report.methods[0].title == "Oversized model"
    assert all(one.costs_you and one.sources for one in report.methods)


def test_a_log_with_too_few_valid_rows_is_not_audited() -> None:
    log = detectors.read(calls(3))
    invalid = InvalidRows(count=4, reasons={"ts": 4}, first=(InvalidRow(line=1, reason="ts"),))
    spoilt = type(log)(log.frame, 7, invalid)
    with pytest.raises(
        detectors.TooFewValidRowsError, match=r"42\.9%.*problem: ts \(first on line 1\)"
    ):
        detectors.audit(spoilt)


def test_a_report_and_its_findings_show_as_one_line() -> None:
    report = make_report(make_finding(1, route="a\nb"))
    assert repr(report) == (
        "<Report on 4,210 calls: $10,000.00/month, 31.4% avoidable; findings: 1>"
    )
    assert repr(report.findings[0]) == (
        "<Finding d1-001 Oversized model on 'a\\nb', 'gpt-5.4': $1,235/month>"
    )


def test_public_names_complete_and_others_are_attribute_errors() -> None:
    assert set(detectors.__all__) <= set(dir(detectors))
    # An unknown name of the library is an attribute error.
    with pytest.raises(AttributeError, match="no attribute 'audits'"):
        _ = detectors.audits


def test_the_steps_of_the_detectors_add_up() -> None:
    report = detectors.audit(calls(5, every=10))
    savings = {one.detector: one for one in report.savings_by_detector}
    # The model finding is conditional, so it is no step.
    overkill, duplicates = savings["d1_model_overkill"], savings["d4_duplicate_calls"]
    assert (overkill.alone_usd, overkill.composed_usd) == (9_625 * MILLIONTH, Decimal(0))
    assert duplicates.alone_usd == duplicates.composed_usd == 11_000 * MILLIONTH
    assert sum(one.composed_usd for one in savings.values()) == report.audit.projected_savings_usd


def test_spend_is_split_by_day_and_model_if_the_days_are_not_too_many() -> None:
    log = calls(2, every=86_400 * 2) + calls(1, model="gpt-5.4-mini")
    report = detectors.audit(log)
    assert [(one.day, one.model, one.spend_usd) for one in report.spend_by_day_and_model] == [
        ("2026-11-02", "gpt-5.4", 2_750 * MILLIONTH),
        ("2026-11-02", "gpt-5.4-mini", 825 * MILLIONTH),
        ("2026-11-04", "gpt-5.4", 2_750 * MILLIONTH),
    ]
    # Spend of very many days is not split by model.
    report = detectors.audit(calls(1_001, every=86_400))
    assert len(report.spend_by_day) == 1_001
    assert report.spend_by_day_and_model == ()


def test_lists_of_labels_are_shortened_and_count_the_others() -> None:
    log = [one for place in range(1_003) for one in calls(1, tag=f"route-{place:04}")]
    unknown = [one for place in range(1_001) for one in calls(1, model=f"house-{place:04}")]
    report = detectors.audit(log + unknown)
    assert (len(report.spend_by_route), len(report.unpriced)) == (1_000, 1_000)
    assert (report.other_routes.count, report.other_routes.calls) == (3, 3)
    assert report.other_routes.spend_usd == 3 * 2_750 * MILLIONTH
    assert (report.other_unpriced.count, report.other_unpriced.calls) == (1, 1)
    assert report.other_models.count == 0


@each_case(
    ("log", "formula"),
    [
        (
            HOURLY,
            "Cost of 31 calls, minus their cost at the rates of gpt-5.4-mini: $0.08525 − "
            "$0.025575 = $0.059675 in 1.3 days; × 23.23 to project to 30 days = $1.39/month.",
        ),
        (
            calls(40, every=60, completion_tokens=500, declared_max_tokens=500),
            "Cost of 39 calls asked again (only the prompt's where the answer was continued) × "
            "100%, the share that is not explained by how often other calls are followed by a "
            "similar one: $0.34125 in 40 minutes.",
        ),
        (calls(20, every=60, completion_tokens=500, declared_max_tokens=8_000), ""),
    ],
)
def test_a_finding_shows_how_its_dollars_were_calculated(
    log: list[dict[str, Any]], formula: str
) -> None:
    assert detectors.audit(log).findings[0].formula == formula


def test_a_document_of_an_earlier_version_is_still_read() -> None:
    document = msgspec.json.decode(detectors.audit(HOURLY).to_json())
    for added in (
        "spend_by_day_and_model",
        "savings_by_detector",
        "other_models",
        "other_routes",
        "other_unpriced",
        "methods",
    ):
        del document[added]
    del document["findings"][0]["formula"]
    # Thresholds that are new have their defaults, and former ones are not read.
    del document["thresholds"]["d2_level_characters"]
    document["thresholds"]["d2_prefix_tokens"] = 1_024
    report = Report.from_json(msgspec.json.encode(document))
    assert report.findings[0].formula == ""
    assert report.methods == ()
    assert report.thresholds.d2_level_characters == detectors.Thresholds().d2_level_characters
