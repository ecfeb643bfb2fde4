"""The headline in three sums, and what is said about a projection."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from detectors import Report
from detectors.contract import UnpricedModel
from detectors.wording.headline import sentence, short_title
from detectors.wording.projection import caution, observed
from tests.cases import data_of, each_case
from tests.detectors.reports import make_report

SUMS = {
    "verified": {"verified_savings_usd": Decimal("61.8")},
    "estimated": {
        "estimated_savings_usd": Decimal("1200.2"),
        "estimated_savings_low_usd": Decimal(700),
        "estimated_savings_high_usd": Decimal(1500),
    },
    "conditional": {
        "conditional_savings_usd": Decimal(640),
        "conditional_savings_low_usd": Decimal(0),
        "conditional_savings_high_usd": Decimal(770),
    },
}
NOTHING = {
    f"{sure}_savings{end}_usd": Decimal(0)
    for sure in ("estimated", "conditional")
    for end in ("", "_low", "_high")
}


def report_of(*sums: str, **changes: Any) -> Report:
    report = make_report()
    chosen = {name: amount for each in sums for name, amount in SUMS[each].items()}
    audit = {"projection": "good", "span_days": 14.0, "verified_savings_usd": Decimal(0)}
    return replace(report, audit=replace(report.audit, **(audit | NOTHING | chosen | changes)))


@each_case(
    ("sums", "expected"),
    data_of(__file__)["the_headline_states_each_sum_by_how_sure_it_is"],
)
def test_the_headline_states_each_sum_by_how_sure_it_is(
    sums: tuple[str, ...], expected: str
) -> None:
    assert sentence(report_of(*sums)) == f"You spend about $10,000/month. {expected}"


def test_a_headline_has_no_range_or_month_that_it_does_not_know() -> None:
    same = {f"estimated_savings{end}_usd": Decimal(7) for end in ("", "_low", "_high")}
    assert sentence(report_of(**same)).endswith("Avoidable: about $7.00/month estimated.")
    # Nothing is called monthly without a projection.
    report = report_of("verified", "estimated", "conditional", projection="none")
    words = (
        f"{sentence(report)} {caution(report.audit)} {observed(report)} {short_title(report.audit)}"
    )
    assert sentence(report).startswith("You spent $10,000 in this period. Avoidable: $62 verified,")
    assert "/month" not in words
    assert "Too little data to project a month" in words


def test_a_document_of_an_earlier_version_or_without_calls_has_its_headline() -> None:
    report = make_report()
    assert report.audit.verified_savings_usd is None
    assert sentence(report) == (
        "You spend about $10,000/month. About $3,140 of it (31.4%) is avoidable."
    )
    assert caution(report.audit) == ""
    # A log without calls or prices says so.
    empty = report_of(records=0)
    assert sentence(empty) == "There were no calls to audit."
    unpriced = replace(
        report_of(total_spend_usd=Decimal(0)),
        unpriced=(UnpricedModel(provider="acme", model="m", calls=1),),
    )
    assert sentence(unpriced) == "None of these calls has a known price."


@each_case(
    ("kind", "expected"),
    [
        ("good", ""),
        ("rough", "0.5 to 1.5 times the actual month."),
        ("very rough", "Single routes can be off by far more."),
    ],
)
def test_a_rough_projection_states_its_measured_range(kind: str, expected: str) -> None:
    words = caution(report_of(projection=kind, span_days=2.5).audit)
    assert words.endswith(expected)
    assert ("projected from 2.5 days" in words) == bool(expected)


@each_case(
    ("records", "span_days", "needed"),
    [
        (29, 90.0, "at least 30 calls over an hour. All figures are for the days that we have."),
        (400, 6.5, "calls on 7 days. All figures are for the days that we have."),
        (400, 90.0, "at least 30 calls in the last 30 days. All figures are for these days."),
    ],
)
def test_without_a_projection_the_caution_says_what_it_takes(
    records: int, span_days: float, needed: str
) -> None:
    report = report_of(projection="none", records=records, span_days=span_days)
    assert caution(report.audit) == f"Too little data to project a month: that takes {needed}"


def test_the_basis_says_what_was_projected() -> None:
    assert observed(report_of()) == (
        "Based on 4,210 calls (Oct 1, 2026 to Oct 14, 2026, UTC): $4,666.67 in 14 days, projected"
        " to 30 days."
    )
    assert observed(report_of(span_days=90.0)).endswith(
        "Monthly figures are those of the last 30 days."
    )
    assert observed(report_of(monthly_factor=1.0)).endswith(
        "$4,666.67 in 14 days. Monthly figures are those of the last 30 days."
    )
    assert observed(report_of(first_call=None)) == ""


def test_a_projection_of_thirty_days_is_said_unless_it_changes_no_dollar() -> None:
    month = {"observed_days": 30, "span_days": 29.2, "monthly_factor": 30 / 29.2}
    spent = {"total_spend_usd": Decimal("1000.00"), **month}
    projected = report_of(projected_spend_usd=Decimal("1027.40"), **spent)
    assert observed(projected).endswith(
        "$1,000.00 in 30 days (the first and last day are partial), projected to 30 full days."
    )
    same = report_of(projected_spend_usd=Decimal("1000.10"), **spent)
    assert observed(same).endswith("$1,000.00 in 30 days.")
