"""Two reports on the same traffic, stated for equally many days."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

import detectors
from detectors import Finding, Report
from detectors.contract import Others, SpendByModel, SpendByRoute, list_priced_changes, span_of
from detectors.report.result.comparing import Comparison
from tests.detectors.reference.builders import answers
from tests.detectors.reports import make_finding, make_report


def _finding(route: str, monthly: int, **changes: Any) -> Finding:
    return make_finding(1, route=route, monthly_cost_impact_usd=Decimal(monthly), **changes)


def _report(*findings: Finding, routes: tuple[str, ...] = (), days: int = 10) -> Report:
    listed = tuple(SpendByRoute(route=one, calls=1, spend_usd=Decimal(1)) for one in routes)
    return replace(make_report(*findings, observed_days=days), spend_by_route=listed)


def _statuses(comparison: Comparison) -> dict[str, str]:
    return {change.finding.route: change.status for change in comparison.changes}


def test_every_finding_of_either_report_is_in_it_once() -> None:
    earlier = _report(*(_finding(name, 300) for name in ("same", "up", "down", "fixed", "gone")))
    later = _report(
        _finding("same", 300),
        _finding("up", 400),
        _finding("down", 200),
        _finding("added", 50),
        routes=("same", "up", "down", "fixed", "added"),
    )
    compared = later.compare(earlier)
    assert [(one.status, one.finding.route) for one in compared.changes] == [
        ("fixed", "fixed"),
        ("new", "added"),
        ("worse", "up"),
        ("better", "down"),
        ("gone", "gone"),
        ("unchanged", "same"),
    ]
    assert [one.finding.route for one in compared.of("worse")] == ["up"]


def test_realized_savings_are_for_the_days_of_the_later_report() -> None:
    earlier = _report(_finding("a", 300), days=3)
    later = _report(routes=("a",), days=10)
    compared = later.compare(earlier)
    [change] = compared.changes
    assert (change.before_usd, change.after_usd, change.saved_usd) == tuple(
        map(Decimal, (300, 0, 100))
    )
    assert compared.saved_usd == 100
    assert "1 finding fixed. Realized savings: $100.00 in the last 10 days" in str(compared)


def test_dollars_of_unequal_spans_are_compared_by_the_month() -> None:
    """A finding of the same size on five days and on ten is unchanged."""
    short = detectors.audit(answers([50] * 40, gap=10_000))
    long = detectors.audit(answers([50] * 80, gap=10_000))
    assert short.audit.observed_days == 5
    assert long.audit.observed_days == 10
    assert {change.status for change in long.compare(short).changes} == {"unchanged"}


def test_routes_are_compared_by_label_or_model_and_to_the_cent() -> None:
    earlier = _report(_finding("a", 1))
    for monthly, status in (("1.009", "unchanged"), ("1.01", "worse"), ("0.99", "better")):
        finding = replace(_finding("a", 1), monthly_cost_impact_usd=Decimal(monthly))
        assert _statuses(_report(finding).compare(earlier)) == {"a": status}
    # A route with a new model is fixed.
    before = detectors.audit(answers([50] * 40))
    after = detectors.audit(answers([50] * 40, model="gpt-4.1-nano"))
    assert {change.status for change in after.compare(before).changes} == {"fixed"}
    # A route without label is compared by its model.
    earlier = _report(_finding("gpt-5.4", 300))
    model = SpendByModel(provider="openai", model="gpt-5.4", calls=1, spend_usd=Decimal(1))
    still = replace(_report(routes=("",)), spend_by_model=(model,))
    assert _statuses(still.compare(earlier)) == {"gpt-5.4": "fixed"}
    assert _statuses(_report(routes=("",)).compare(earlier)) == {"gpt-5.4": "gone"}
    # A list of routes cut short proves no absence.
    earlier = _report(_finding("a", 300))
    cut = replace(_report(routes=("b",)), other_routes=Others(count=1))
    assert _statuses(cut.compare(earlier)) == {"a": "fixed"}


def test_other_prices_and_thresholds_are_mentioned() -> None:
    earlier = _report(_finding("a", 300))
    prices = replace(earlier.prices, negotiated=("openai: 12% off",))
    thresholds = detectors.Thresholds(d1_min_calls=7)
    later = replace(_report(_finding("a", 300)), prices=prices, thresholds=thresholds)
    for words in ("different prices", "different thresholds"):
        assert words in str(later.compare(earlier))
        assert words in later.compare(earlier)._repr_html_()
        assert words not in str(earlier.compare(earlier))


def _spent(first: str, last: str, usd: int, **routes: int) -> Report:
    listed = tuple(
        SpendByRoute(route=name, calls=1, spend_usd=Decimal(amount))
        for name, amount in routes.items()
    )
    report = make_report()
    ends = {"first_call": first, "last_call": last, "total_spend_usd": Decimal(usd)}
    return replace(report, audit=replace(report.audit, **ends), spend_by_route=listed)


def test_spend_is_compared_by_route_largest_change_first() -> None:
    earlier = _spent("2026-10-01T00:00:00Z", "2026-10-31T00:00:00Z", 60, same=10, down=50)
    later = _spent("2026-11-01T09:00:00Z", "2026-12-01T08:59:59Z", 47, new=2, same=10, down=35)
    compared = later.compare(earlier)
    assert [span.days for span in compared.spans] == [30, 30]
    assert [(each.labels, each.change_usd, each.change_pct) for each in compared.routes] == [
        (("down",), Decimal(-15), -30.0),
        (("new",), Decimal(2), None),
        (("same",), Decimal(0), 0.0),
    ]


def test_unequal_spans_are_compared_per_day_and_unpriced_findings_not_at_all() -> None:
    earlier = _spent("2026-10-01T00:00:00Z", "2026-10-11T00:00:00Z", 50, a=50)
    later = _spent("2026-10-11T00:00:00Z", "2026-10-11T00:01:00Z", 10, a=10)
    [change] = later.compare(earlier).routes
    assert (change.before_usd, change.after_usd) == (Decimal(5), Decimal(10))
    # A report without calls covers a day.
    empty = span_of(detectors.audit([]))
    assert (empty.days, empty.first, empty.spend_usd) == (1, None, Decimal(0))


def test_findings_without_savings_are_not_priced_changes() -> None:
    earlier, later = _report(_finding("a", 0), _finding("b", 3)), _report(_finding("c", 0))
    assert [change.finding.route for change in list_priced_changes(later, earlier)] == ["b"]
