"""What a finding is worth in words, and the warnings about data quality."""

from decimal import Decimal

from msgspec.structs import replace

from detectors.contract import DataQuality, InvalidRows, UnpricedModel
from detectors.wording.impact import amount, how_sure, impact, impact_range, seen
from detectors.wording.quality import measures, warnings
from tests.cases import each_case
from tests.detectors.reports import make_finding, make_report

FINE = DataQuality(
    priced_tokens_pct=100.0,
    equiv_spend_pct=0.0,
    untagged_spend_pct=0.0,
    hashed_calls_pct=100.0,
    routes=12_000,
    routes_used_once=0,
)
RANGED = {"impact_low": Decimal(375), "impact_high": Decimal("1503.6")}


@each_case(
    ("confidence", "shown", "in_words"),
    [
        ("VERIFIED", "$1,235", "$1,235/month"),
        ("ESTIMATED", "$1,235", "$1,235/month"),
        ("CONDITIONAL", "up to $1,235", "up to $1,235/month"),
        ("INFORMATIONAL", "–", "no savings claimed"),
    ],
)
def test_an_amount_says_how_sure_it_is(confidence: str, shown: str, in_words: str) -> None:
    finding = make_finding(1, confidence=confidence)
    assert (amount(finding), impact(finding, make_report().audit)) == (shown, in_words)


def test_an_amount_is_of_its_period_with_its_range() -> None:
    audit = replace(make_report().audit, projection="none")
    assert impact(make_finding(1), audit) == "$1,235 in this period"
    # A range is shown where it is known and wide.
    assert impact_range(make_finding(1, **RANGED)) == "$375 to $1,504/month"
    assert impact_range(make_finding(1)) == ""
    assert impact_range(make_finding(1, impact_low=Decimal(1), impact_high=Decimal(1))) == ""
    assert impact_range(make_finding(1, confidence="INFORMATIONAL", **RANGED)) == ""


@each_case(
    ("confidence", "shown"),
    [
        ("VERIFIED", "Verified: calculated from billed token counts"),
        ("ESTIMATED", "Estimated: $375 to $1,504/month"),
        ("CONDITIONAL", "Conditional: if the cheaper model passes your own evaluation"),
        ("OF_A_LATER_VERSION", "OF_A_LATER_VERSION"),
    ],
)
def test_a_finding_says_how_sure_its_savings_are(confidence: str, shown: str) -> None:
    assert how_sure(make_finding(1, confidence=confidence, **RANGED)) == shown


def test_calls_have_their_days_and_earlier_versions_no_warnings() -> None:
    first, last = "2026-10-01T00:00:00Z", "2026-10-14T23:00:00Z"
    assert seen(make_finding(1)) == ""
    assert seen(make_finding(1, first_seen=first, last_seen=first)) == (
        "in these calls on Oct 1, 2026 (UTC)"
    )
    assert seen(make_finding(1, first_seen=first, last_seen=last)) == (
        "in these calls from Oct 1, 2026 to Oct 14, 2026 (UTC)"
    )
    # A report of an earlier version without problems has no warnings.
    assert warnings(make_report()) == []


@each_case(
    ("calls", "words"),
    [
        (1, "1 call is dated more than a day in the future."),
        (1_200, "1,200 calls are dated more than a day in the future."),
    ],
)
def test_calls_dated_in_the_future_are_counted(calls: int, words: str) -> None:
    report = replace(make_report(), data_quality=replace(FINE, future_calls=calls))
    assert [each for each in warnings(report) if each.startswith(words)]
    assert ("Calls dated in the future", f"{calls:,}") in measures(report)
    fine = replace(report, data_quality=FINE)
    assert "Calls dated in the future" not in dict(measures(fine))
    assert not [each for each in warnings(fine) if "future" in each]
    assert b"future_calls" not in fine.to_json()


def test_warnings_say_what_limits_the_figures_and_what_to_do() -> None:
    report = make_report()
    report = replace(
        report,
        audit=replace(
            report.audit,
            valid_pct=61.0,
            equiv_spend=True,
            overfull_records=1,
            projection="rough",
            outlier_calls=2,
            outlier_times=("2001-01-01T00:00:00Z", "2001-01-01T09:00:00Z"),
        ),
        invalid_rows=InvalidRows(count=9, reasons={"ts is missing": 9}, first=()),
        unpriced=(UnpricedModel(provider="acme", model="m", calls=1),),
        data_quality=replace(
            FINE,
            priced_tokens_pct=98.0,
            equiv_spend_pct=12.5,
            untagged_spend_pct=54.0,
            hashed_calls_pct=0.0,
            routes_used_once=9_812,
        ),
    )
    words = warnings(report)
    expected = (
        "Only 61% of the rows could be read.",
        "Monthly figures are rough",
        "12.5% of the spend is of calls on a flat-rate plan",
        "1 call to 1 model has no known price",
        "2 calls are more than 30 days away from all others (Jan 1, 2001, UTC), counted in total",
        "1 call has more cached tokens than prompt tokens.",
        "54% of your spend has no tag or endpoint",
        "9,812 tags were used only once.",
        "No calls have a prefix hash",
    )
    assert len(words) == len(expected)
    for sentence, start in zip(words, expected, strict=True):
        assert sentence.startswith(start)


def test_a_few_hashes_are_not_called_none() -> None:
    report = replace(make_report(), data_quality=replace(FINE, hashed_calls_pct=2.0))
    assert warnings(report)[0].startswith("Few calls have a prefix hash")
