"""The words of a comparison: statuses of findings, and what to know before reading its figures."""

from collections.abc import Iterator, Mapping
from typing import Final

from detectors.contract import Report, Span, is_per_day
from detectors.contract.comparison import BETTER, FIXED, GONE, NEW, UNCHANGED, WORSE
from detectors.wording.figures import counted
from detectors.wording.projection import is_monthly

STATUS_WORDS: Final[Mapping[str, str]] = {
    FIXED: "Fixed",
    NEW: "New",
    WORSE: "Worse",
    BETTER: "Better",
    GONE: "Gone with its traffic",
    UNCHANGED: "Unchanged",
}


def describe_lengths(before: Span, after: Span) -> Iterator[str]:
    """Say that spend is per day if the spans differ in length, and how many days they share."""
    if is_per_day(before, after):
        yield (
            f"Changes are per day, because the first covers {counted(before.days, 'day')} and the "
            f"second {counted(after.days, 'day')}."
        )
    if before.first and before.last and after.first and after.last:
        shared = (min(before.last, after.last) - max(before.first, after.first)).days + 1
        if shared > 0:
            yield f"Both include the same {counted(shared, 'day')}, which makes changes smaller."


def describe_reports(before: Report, after: Report) -> Iterator[str]:
    """Say what makes two reports differ that is not traffic."""
    if not (is_monthly(before.audit) and is_monthly(after.audit)):
        yield "A report is too short for monthly figures: its amounts are those of its period."
    if before.prices != after.prices:
        yield "The reports use different prices, which can change dollar figures."
    if before.thresholds != after.thresholds:
        yield "The reports use different thresholds, which can change findings."
    if before.other_routes.count or after.other_routes.count:
        yield "A report lists only its most expensive routes; only those are compared."
