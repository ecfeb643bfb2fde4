"""Windows, spans and factors, worked out by hand from the days with calls."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

import detectors
from detectors import Thresholds
from detectors.report.counting.projection import DAY_US, DayOfCalls, Projection
from tests.cases import each_case

SECOND, HOUR = 1_000_000, 3_600_000_000
THRESHOLDS = Thresholds()


def day(
    number: float, calls: int = 1, *, seconds: int | None = None, hours: float = 0
) -> DayOfCalls:
    """Calls from the beginning of a day on, in as many seconds, over so many hours."""
    first = round(number * DAY_US)
    return DayOfCalls(
        calls=calls,
        first_us=first,
        last_us=first + round(hours * HOUR),
        seconds=calls if seconds is None else seconds,
    )


def project(*days: DayOfCalls) -> Projection:
    return Projection.of(days, THRESHOLDS)


def test_the_span_counts_seconds_with_one_mean_gap_more_than_the_calls() -> None:
    # 25 calls, one an hour: 24 hours between them, and 25 hours that they stand for.
    projection = project(day(10, 24, hours=23), day(11))
    assert projection.span_us == Fraction(25 * HOUR)
    assert projection.factor == 1  # fewer than 30 calls
    assert (projection.kind, projection.observed_days) == ("none", 2)
    # Seconds count and not calls.
    assert project(day(10, 100, seconds=2, hours=1)).span_us == 2 * HOUR
    assert project(day(10, 100, seconds=1)).span_us == 0


@each_case(
    ("hours", "calls", "kind"),
    [
        (0.9, 30, "none"),
        (1, 30, "very rough"),
        (1, 29, "none"),
        (23.9, 30, "very rough"),
        (24, 30, "rough"),
        (167.9, 30, "rough"),
        (168, 30, "good"),
        (168, 29, "none"),
        (700, 30, "good"),
    ],
)
def test_the_kind_follows_the_span_and_the_calls(hours: float, calls: int, kind: str) -> None:
    last = hours * (calls - 1) / calls / 24
    projection = project(day(100, calls - 1), day(100 + last))
    assert projection.kind == kind
    if kind == "none":
        assert projection.factor == 1
    else:
        month = min(Decimal(hours) / 24, Decimal(30))
        assert float(projection.factor) == pytest.approx(float(30 / month), rel=1e-6)


def test_the_window_is_the_last_thirty_days_or_the_whole_log() -> None:
    projection = project(*(day(number, 10) for number in range(100, 200)))
    assert projection.to_us == 199 * DAY_US
    assert projection.window_start_us == 169 * DAY_US
    assert projection.from_us == 169 * DAY_US + 1  # a call exactly 30 days before is outside
    assert projection.factor == 1
    # The window of a shorter log is all of it.
    projection = project(*(day(number, 10) for number in range(100, 114)))
    assert (projection.from_us, projection.to_us) == (100 * DAY_US, 113 * DAY_US)
    assert projection.window_start_us == projection.from_us


@each_case("calls", [1, 2])
def test_a_few_calls_far_from_the_others_are_outliers(calls: int) -> None:
    usual = [day(number, 20) for number in range(100, 110)]
    early = day(69, calls)  # 31 days earlier
    projection = project(early, *usual)
    assert projection.outliers == calls  # of 200: 1% are two
    assert projection.outlier_us == (early.first_us,)
    assert (projection.factor, projection.kind) == (project(*usual).factor, "good")
    assert projection.observed_days == 10
    assert projection.from_us == 100 * DAY_US


def test_only_few_calls_far_from_all_others_are_outliers() -> None:
    usual = [day(number, 20) for number in range(100, 110)]
    assert project(day(69, 3), *usual).outliers == 0
    assert project(day(70), *usual).outliers == 0  # exactly 30 days
    assert project(*usual, day(140)).outliers == 1
    # The longest stretch counts and only if both ends are few.
    usual = [day(number, 20) for number in range(100, 110)]
    assert project(day(1), day(40), *usual).outliers == 2
    assert project(day(1), *usual, day(300)).outliers == 2
    assert project(day(1), day(40), *usual, day(300)).outliers == 0
    assert project(day(1), day(100)).outliers == 0  # two calls: each is half of them
    # No call at the newer end of an account is an outlier.
    usual = [day(number, 20) for number in range(100, 110)]
    days = (day(60), *usual, day(150))
    assert (project(*days).outliers, project(*days).to_us) == (2, 109 * DAY_US)
    account = Projection.of(days, THRESHOLDS, keeps_newest=True)
    assert (account.outliers, account.to_us, account.kind) == (1, 150 * DAY_US, "none")


@each_case(("calls", "kind"), [(29, "none"), (30, "good")])
def test_the_kind_counts_the_calls_of_the_window(calls: int, kind: str) -> None:
    projection = project(day(100, 100), day(150, calls))
    assert (projection.kind, projection.calls) == (kind, calls)
    assert (projection.factor == 1, projection.outliers) == (True, 0)


@each_case(
    ("before", "within", "calls", "kind"),
    [(1, 0, 30, "good"), (5, 2, 28, "good"), (5, 1, 28, "none"), (5, 5, 20, "none")],
)
def test_the_kind_may_depend_on_the_day_that_the_window_cuts(
    before: int, within: int, calls: int, kind: str
) -> None:
    """The window begins on day 120 at 12:00, and has some of that day's calls."""
    days = (day(100, 100), day(120, before, hours=20), day(150, calls, hours=12))
    projection = project(*days)
    assert projection.from_us == 120 * DAY_US + DAY_US // 2 + 1
    newest = [
        (projection.from_us - 1, before - within),
        (projection.from_us, within),
        (150 * DAY_US, calls),
    ]
    cut = projection.with_newest(newest, THRESHOLDS)
    assert cut.kind == kind
    assert kind == "none" or cut == projection


def test_calls_of_the_day_that_the_window_cuts_are_counted_alone_and_together() -> None:
    """The window begins at noon of the 20th day, before 12 or 16 of that day's calls."""
    logs, kinds = [], []
    for after in (12, 16):
        hours = [*range(0, 40), *range(468, 480), *(480 + 12 + at / 8 for at in range(after))]
        newest = 480 + 12 - 0.01 + 30 * 24
        records = [_call(at) for at in (*hours, *(newest - at / 60 for at in range(14)))]
        logs.append(detectors.read(records))
        kinds.append(detectors.audit(logs[-1], keep_calls=False).audit.projection)
    assert kinds == ["none", "good"]
    together = detectors.report.audit_many(logs, keep_calls=False)
    assert [report.audit.projection for report in together] == kinds
    assert [report.audit.monthly_factor for report in together] == [1, 1]


def _call(hours: float) -> dict[str, object]:
    at = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(hours=hours)
    counts = {"prompt_tokens": 10, "completion_tokens": 1}
    return {"ts": at.isoformat(), "provider": "openai", "model": "gpt-4o", **counts}


def test_a_log_without_calls_has_an_empty_window() -> None:
    projection = project()
    assert projection.from_us > projection.to_us
    assert (projection.window_start_us, projection.observed_days) == (None, 1)
    assert projection.kind == "none"
    assert projection.factor == 1


@each_case(("least_days", "kind"), [(0, "rough"), (4, "rough"), (5, "none")])
def test_nothing_is_projected_from_fewer_days_than_it_takes(least_days: int, kind: str) -> None:
    days = [day(number, 20) for number in (10, 11, 13)]
    projection = Projection.of(days, THRESHOLDS, least_days)
    assert (projection.kind, projection.factor == 1) == (kind, kind == "none")
    assert projection.observed_days == 4
