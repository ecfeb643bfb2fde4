"""What a report says below its findings: smaller ones, past ones, and how the sums add up."""

from collections.abc import Iterator

from detectors.contract import Remainder, Report
from detectors.wording.figures import counted, day, number, usd
from detectors.wording.labels import inert
from detectors.wording.names import detector_name
from detectors.wording.projection import per_month


def footnotes(report: Report) -> Iterator[str]:
    """Yield the lines below the list of findings."""
    if len(report.findings) > 1 or report.remainders:
        yield "A call can trigger several findings; totals count each dollar once."
    for rest in report.remainders:
        yield _remainder(report, rest)
    if not report.remainders and report.audit.below_floor:  # documents of earlier versions
        yield (
            f"{counted(report.audit.below_floor, 'smaller finding')} under "
            f"{usd(report.thresholds.floor_usd)}/month not listed."
        )
    for wider in report.wider_limits:
        name = detector_name(wider.detector, report.methods)
        them = "It counts" if wider.groups == 1 else "They count"
        yield (
            f"{name}: with wider limits, {counted(wider.groups, 'more route')} could save up to "
            f"{usd(wider.monthly_cost_impact_usd)}{per_month(report.audit)}. {them} only in the "
            "upper end of the headline."
        )


def _remainder(report: Report, rest: Remainder) -> str:
    name = detector_name(rest.detector, report.methods)
    parts = []
    if rest.findings:
        amount = f"{usd(rest.monthly_cost_impact_usd)}{per_month(report.audit)}"
        parts.append(f"{counted(rest.findings, 'smaller finding')}, {amount} in total")
    if rest.informational:
        parts.append(f"{counted(rest.informational, 'finding')} without savings")
    return f"{name}: {' and '.join(parts)} not listed."


def past_findings(report: Report) -> Iterator[str]:
    """Yield a line for each finding whose calls all lie before the projected period."""
    for past in report.no_longer_happening:
        where = past.route if past.route == past.model else f"{past.route}, {past.model}"
        name = detector_name(past.detector, report.methods)
        yield (
            f"{name} on {inert(where)}: last seen {day(past.last_seen)} (UTC), "
            f"{counted(past.calls, 'call')}, {usd(past.observed_cost_impact_usd)} until then."
        )
    if report.other_past_findings:
        yield f"And {number(report.other_past_findings)} more with smaller amounts."
