"""What a report says below its findings: smaller ones, past ones, and how the sums add up.

And of calls that a plan includes: their value, and never money.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from detectors.contract import PlanSums, Report
from detectors.wording.figures import counted, day, number, period, usd, whole_usd
from detectors.wording.labels import inert
from detectors.wording.names import NO_ROUTE, detector_name
from detectors.wording.projection import per_month

PLAN_HEADING: Final = "Plan usage"
SHOWN: Final = 20  # rows of each table
_COLUMNS: Final = ("Calls", "Input tokens", "Cached", "Cache writes", "Output tokens", "Value")


def counted_once(report: Report) -> str:
    """Return how findings add up; "" where there is nothing to add."""
    if len(report.findings) > 1 or report.remainders:
        return "A call can trigger several findings; totals count each dollar once."
    return ""


def footnotes(report: Report) -> Iterator[str]:
    yield from filter(None, [counted_once(report)])
    for line in unlisted(report):
        yield f"{line.words} {line.note}".strip()


class Unlisted(NamedTuple):
    """A line below the findings, and a sentence that a page may show on request."""

    words: str
    note: str = ""


def unlisted(report: Report) -> Iterator[Unlisted]:
    """Yield a line for all money of a detector that no listed finding has."""
    for rest in report.remainders:
        parts = []
        if rest.findings:
            amount = f"{whole_usd(rest.monthly_cost_impact_usd)}{per_month(report.audit)}"
            parts.append(f"{counted(rest.findings, 'smaller finding')}, {amount} in total")
        if rest.informational:
            parts.append(f"{counted(rest.informational, 'finding')} without savings")
        name = detector_name(rest.detector, report.methods)
        yield Unlisted(f"{name}: {' and '.join(parts)} not listed.")
    if not report.remainders and report.audit.below_floor:  # documents of earlier versions
        yield Unlisted(
            f"{counted(report.audit.below_floor, 'smaller finding')} under "
            f"{usd(report.thresholds.floor_usd)}/month not listed."
        )
    for wider in report.wider_limits:
        name = detector_name(wider.detector, report.methods)
        them = "It counts" if wider.groups == 1 else "They count"
        yield Unlisted(
            f"{name}: with wider limits, {counted(wider.groups, 'more route')} could save up to "
            f"{whole_usd(wider.monthly_cost_impact_usd)}{per_month(report.audit)}.",
            f"{them} only in the upper end of the headline.",
        )


def past_findings(report: Report) -> Iterator[str]:
    """Yield a line for each finding whose calls all lie before the projected period."""
    for past in report.no_longer_happening:
        where = past.route if past.route == past.model else f"{past.route}, {past.model}"
        name = detector_name(past.detector, report.methods)
        yield (
            f"{name} on {inert(where)}: last seen {day(past.last_seen)} (UTC), "
            f"{counted(past.calls, 'call')}, {whole_usd(past.observed_cost_impact_usd)} until then."
        )
    if report.other_past_findings:
        yield f"And {number(report.other_past_findings)} more with smaller amounts."


class PlanTable(NamedTuple):
    """Plan usage by model or by route; the first `labels` columns are texts, the others numbers."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    labels: int


def plan_notes(report: Report) -> Iterator[str]:
    usage = report.plan_usage
    if not usage:
        return
    are, their = ("is", "its") if usage.calls == 1 else ("are", "their")
    yield (
        f"{counted(usage.calls, 'call')} ({period(usage.first_call, usage.last_call)}, UTC) {are} "
        f"included in a plan. The API price of {their} tokens is {usd(usage.value_usd)}: {their} "
        "value. No other figure of this report counts it."
    )
    if usage.unpriced_calls:
        has, is_ = ("has", "is") if usage.unpriced_calls == 1 else ("have", "are")
        yield (
            f"{counted(usage.unpriced_calls, 'call')} of a plan {has} no known price and {is_} not "
            "in the value."
        )


def plan_tables(report: Report, shown: int = SHOWN) -> Iterator[PlanTable]:
    """Yield the most valuable models and routes of a report's plan usage."""
    usage = report.plan_usage
    if not usage:
        return
    models = [(inert(each.model), inert(each.provider), *_cells(each)) for each in usage.models]
    yield PlanTable(("Model", "Provider", *_COLUMNS), models[:shown], 2)
    if any(each.route for each in usage.routes):
        routes = [(inert(each.route) or NO_ROUTE, *_cells(each)) for each in usage.routes]
        yield PlanTable(("Route", *_COLUMNS), routes[:shown], 1)


def _cells(sums: PlanSums) -> tuple[str, ...]:
    counts = (
        *(sums.calls, sums.prompt_tokens, sums.cached_tokens),
        *(sums.cache_write_tokens, sums.completion_tokens),
    )
    has_price = sums.unpriced_calls < sums.calls
    return (*map(number, counts), usd(sums.value_usd) if has_price else "–")
