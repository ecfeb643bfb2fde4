"""How sure the dollars are, on the page and in the PDF: three sums, ranges, projections."""

import re
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import Any, Final

import pytest
from flask.testing import FlaskClient
from msgspec.structs import replace

from detectors.contract import DataQuality, PastFinding, Remainder, Report, WiderLimits
from tests.detectors.reports import CHANGED_ASSUMPTIONS
from tests.lazily import pypdf
from tests.service.support.browser import words_of
from tests.service.support.scaled_reports import make_scaled_report

# A note that only a press opens.
_BEHIND_AN_I: Final = re.compile('<details class="info">.*?</details>', re.DOTALL)
Publish = Callable[[Report], str]
HEADLINE = "You could save $1,262–2,032 a month"
SUMS = {
    "projection": "good",
    "span_days": 13.9,
    "verified_savings_usd": Decimal(62),
    "estimated_savings_usd": Decimal(1200),
    "estimated_savings_low_usd": Decimal(700),
    "estimated_savings_high_usd": Decimal(1500),
    "conditional_savings_usd": Decimal(640),
    "conditional_savings_low_usd": Decimal(0),
    "conditional_savings_high_usd": Decimal(770),
}
PAST = PastFinding(
    detector="d4_duplicate_calls",
    kind="same_prompt",
    route="nightly-sync",
    provider="openai",
    model="gpt-5.5",
    calls=20,
    confidence="VERIFIED",
    first_seen="2026-01-01T00:00:00Z",
    last_seen="2026-01-09T00:00:00Z",
    observed_cost_impact_usd=Decimal("12.5"),
)
SEEN = {"first_seen": "2026-02-01T00:00:03Z", "last_seen": "2026-02-14T23:59:01Z"}


def make(confidence: str = "ESTIMATED", **changes: Any) -> Report:
    report = make_scaled_report(findings=5)
    is_monthly = changes.get("projection") != "none"
    ranged = {"impact_low": Decimal("1.25"), "impact_high": Decimal(5000), **SEEN}
    findings = [
        replace(each, confidence=confidence, is_monthly=is_monthly, formula="", **ranged)
        for each in report.findings
    ]
    return replace(
        report,
        audit=replace(report.audit, **(SUMS | changes)),
        findings=tuple(findings),
        no_longer_happening=(PAST,),
        remainders=(
            Remainder(
                detector="d4_duplicate_calls",
                findings=7,
                informational=0,
                monthly_cost_impact_usd=Decimal("0.5"),
            ),
        ),
        wider_limits=(
            WiderLimits(
                detector="d1_model_overkill",
                kind="short_answers",
                groups=2,
                monthly_cost_impact_usd=Decimal(130),
            ),
        ),
        data_quality=DataQuality(
            priced_tokens_pct=99.0,
            equiv_spend_pct=0.0,
            untagged_spend_pct=54.0,
            hashed_calls_pct=30.0,
            routes=4,
            routes_used_once=0,
        ),
    )


@pytest.fixture(params=["page", "pdf"])
def read(
    client: FlaskClient, publish: Publish, request: pytest.FixtureRequest
) -> Callable[[Report], str]:
    """Return the words of the report that are seen without pointing, on the page or in the PDF."""

    def read_page(report: Report) -> str:
        page = client.get(publish(report)).get_data(as_text=True)
        return words_of(_BEHIND_AN_I.sub("", re.sub("</?(?:bdi|small)>", "", page)))

    def read_pdf(report: Report) -> str:
        file = BytesIO(client.get(f"{publish(report)}/pdf").data)
        return " ".join(
            " ".join(page.extract_text() for page in pypdf.PdfReader(file).pages).split()
        )

    return read_page if request.param == "page" else read_pdf


def test_the_three_sums_the_first_actions_and_the_tail_are_shown(
    read: Callable[[Report], str],
) -> None:
    words = read(make())
    for expected in (
        HEADLINE,
        *("$62", "about $1,200", "$700 to $1,500", "up to $770", "if they pass your evaluation"),
        "Fix these first",
        "$1.25 to $5,000",
        "n these calls from Feb 1, 2026 to Feb 14, 2026 (UTC)",
        "Duplicate calls: 7 smaller findings, $0.50/month in total not listed.",
        "with wider limits, 2 more routes could save up to $130/month.",
        "No longer happening",
        "Duplicate calls on nightly-sync, gpt-5.5: last seen Jan 9, 2026 (UTC), 20 calls, $13",
        "54% of your spend has no tag or endpoint",
    ):
        assert expected in words, expected


def test_conditional_savings_are_called_so(read: Callable[[Report], str]) -> None:
    words = read(make("CONDITIONAL"))
    assert "up to $" in words
    # On the page, the sentence is shown on focus and in print; the word is always seen.
    assert re.search("Conditional:? if the cheaper model passes your own evaluation", words)
    assert "if they pass your evaluation" in words  # below the sum of all of them


def test_nothing_is_monthly_where_nothing_is_projected(read: Callable[[Report], str]) -> None:
    words = read(make(projection="none"))
    assert "/month" not in words
    assert "Monthly" not in words
    assert "You could save $1,262–2,032 in this period" in words
    assert "$1,779" in words
    assert "Too little data to project a month" in words


@pytest.mark.parametrize(("kind", "span"), [("rough", "0.5 to 1.5"), ("very rough", "0.25 to 2.1")])
def test_a_rough_projection_says_so_with_its_range(
    read: Callable[[Report], str], kind: str, span: str
) -> None:
    words = read(make(projection=kind, span_days=0.6))
    assert f"Monthly figures are {kind}: they are projected from 14.4 hours." in words
    assert f"8 in 10 such projections were {span} times the actual month." in words


def test_data_quality_comes_after_the_findings(client: FlaskClient, publish: Publish) -> None:
    page = client.get(publish(make())).get_data(as_text=True)
    order = [page.index(f'id="{name}"') for name in ("fix-first", "money", "findings", "quality")]
    assert order == sorted(order)


def test_assumptions_that_differ_from_the_defaults_are_shown(read: Callable[[Report], str]) -> None:
    report = make()
    assert "Changed assumptions" not in read(report)
    words = read(replace(report, thresholds=replace(report.thresholds, d2_cache_seconds=60)))
    for expected in CHANGED_ASSUMPTIONS:
        assert expected in words, expected
