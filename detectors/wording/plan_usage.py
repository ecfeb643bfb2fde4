"""What a report says about calls that a plan includes: their value, and never money."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from detectors.contract import PlanSums, Report
from detectors.wording.figures import counted, number, period, usd
from detectors.wording.labels import inert

PLAN_HEADING: Final = "Plan usage"
SHOWN: Final = 20  # rows of each table
_COLUMNS: Final = ("Calls", "Input tokens", "Cached", "Cache writes", "Output tokens", "Value")


class PlanTable(NamedTuple):
    """Plan usage by model or by route; the first `labels` columns are texts, the others numbers."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    labels: int


def plan_notes(report: Report) -> Iterator[str]:
    """Yield what the plan usage of a report adds up to; nothing without any."""
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
        routes = [
            (inert(each.route) or "No tag or endpoint", *_cells(each)) for each in usage.routes
        ]
        yield PlanTable(("Route", *_COLUMNS), routes[:shown], 1)


def _cells(sums: PlanSums) -> tuple[str, ...]:
    counts = (
        *(sums.calls, sums.prompt_tokens, sums.cached_tokens),
        *(sums.cache_write_tokens, sums.completion_tokens),
    )
    return (*map(number, counts), usd(sums.value_usd))
