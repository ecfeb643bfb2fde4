"""How numbers and labels are written for people."""

from datetime import date
from decimal import Decimal

from detectors.wording.figures import (
    change,
    counted,
    latency,
    percent,
    rate,
    short_day,
    short_number,
    short_usd,
    size,
    usd,
    whole_usd,
)
from detectors.wording.labels import inert, is_right_to_left, may_be_link, shortened
from tests.cases import each_case
from tests.detectors.hostile_links import LINKS


@each_case(
    ("value", "written"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1K"),
        (1_200_000, "1.2M"),
        (999_600, "1M"),
        (12_345_678_901, "12.3B"),
        (2e12, "2T"),
        (3e15, "3Q"),
    ],
)
def test_a_large_number_is_short(value: float, written: str) -> None:
    assert short_number(value) == written


@each_case(
    ("value", "written"),
    [(0, "$0"), (0.004, "$0.004"), (0.2, "$0.20"), (5, "$5.00"), (250, "$250"), (40_000, "$40K")],
)
def test_dollars_at_an_axis_are_short(value: float, written: str) -> None:
    assert short_usd(value) == written


def test_tiny_and_negative_dollars_are_written_out() -> None:
    assert [short_usd(one) for one in (3e-5, 1.5e-5, 0.012)] == ["$0.00003", "$0.000015", "$0.012"]
    # Negative dollars keep their sign.
    assert usd(Decimal("-1234.5")) == "−$1,234.50"
    assert whole_usd(Decimal("-1234.5")) == "−$1,235"


@each_case(
    ("share", "written"),
    [(0, "0"), (0.001, "< 0.1"), (0.06, "0.1"), (3.4, "3.4"), (56, "56")]
    + [(99.94, "99.9"), (99.99, "> 99.9"), (100, "100")],
)
def test_a_percentage_keeps_its_sign_and_never_rounds_to_zero(share: float, written: str) -> None:
    assert percent(share) == f"{written}%"


@each_case(
    ("usd_per_mtok", "written"),
    [(30, "$30.00"), (1.5, "$1.50"), (0.075, "$0.075"), (18.75, "$18.75"), (1_200, "$1,200.00")],
)
def test_a_rate_has_the_decimals_of_its_price_list(usd_per_mtok: float, written: str) -> None:
    assert rate(usd_per_mtok) == written


def test_plurals_agree() -> None:
    assert (counted(1, "call"), counted(1_200, "call")) == ("1 call", "1,200 calls")
    assert counted(2, "row was", "rows were") == "2 rows were"


def test_labels_cannot_affect_the_text_around_them() -> None:
    assert inert("a\u202eb\x07") == "a\\u202eb\\x07"
    assert shortened("a" * 9, 5) == "aaaa…"
    assert shortened("short", 5) == "short"
    assert is_right_to_left("שלום")
    assert not is_right_to_left("hello")


@each_case("label", LINKS)
def test_whatever_could_become_a_link_is_noticed(label: str) -> None:
    assert may_be_link(label)
    assert may_be_link(f"see {label} now")


def test_names_of_models_and_versions_are_no_links() -> None:
    labels = ("gpt-4.1-mini", "claude-3.5-sonnet", "v1.5", "svc.v2", "e.g. this", "$1,991.50. You")
    assert [label for label in labels if may_be_link(label)] == []


@each_case(("amount", "written"), [("0.004", "$0.004"), ("0.00001", "< $0.0001"), ("0", "$0.00")])
def test_dollars_too_small_for_cents_keep_their_leading_digits(amount: str, written: str) -> None:
    assert usd(Decimal(amount)) == written


@each_case(
    ("now", "before", "words"),
    [
        ("112.3", "100", "+12.3%"),
        ("92", "100", "−8%"),
        ("0", "100", "−100%"),
        ("100", "100", "No change"),
        ("10001", "10000", "No change"),
        ("100.01", "100", "–"),
        ("0.90", "0.10", "–"),
        ("1099", "100", "+999%"),
        ("1231", "100", "×12"),
        ("23076", "8.14", "New"),
        ("5", "0", "New"),
        ("0", "0", "–"),
    ],
)
def test_a_change_is_a_percentage_of_what_was(now: str, before: str, words: str) -> None:
    assert change(Decimal(now), Decimal(before)) == words


def test_a_short_day_has_no_year() -> None:
    assert short_day(date(2026, 11, 2)) == "Nov 2"


@each_case(
    ("milliseconds", "written"),
    [
        (1.02, "1 ms"),
        (8.37, "8.4 ms"),
        (823, "820 ms"),
        (994, "990 ms"),
        (996, "1.0 s"),
        (3_440, "3.4 s"),
        (75_300, "75 s"),
        (720_000, "12 min"),
    ],
)
def test_a_latency_has_two_digits(milliseconds: float, written: str) -> None:
    assert latency(milliseconds) == written


@each_case(
    ("count", "written"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_000, "1 KB"),
        (999_600, "1 MB"),
        (1_234_567, "1.23 MB"),
        (5 * 1024**3, "5.37 GB"),
        (10**18, "1e+18 bytes"),
    ],
)
def test_bytes_have_a_unit_of_a_thousand(count: int, written: str) -> None:
    assert size(count) == written


def test_numbers_below_each_other_have_the_same_digits() -> None:
    assert [short_number(each, padded=True) for each in (7_100_000, 7_071_000, 120_000, 385)] == [
        *("7.10M", "7.07M", "120K", "385")
    ]
    assert [percent(each, padded=True) for each in (14.0, 14.8, 0.01)] == [
        *("14.0%", "14.8%", "< 0.1%")
    ]
    changes = [change(Decimal(each), Decimal(50), padded=True) for each in ("57", "57.4", "50")]
    assert changes == ["+14.0%", "+14.8%", "No change"]
