"""The report of one batch of a continuous stream: its own dollars, and nothing monthly.

The document stays as it is; only what people read differs.
"""

from decimal import Decimal
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from detectors.contract import AuditSummary, Report
from detectors.wording.projection import IMPORT, is_monthly

LEAST_DAYS: Final = 7
# A formula ends with how its dollars are projected.
_PROJECTION: Final = "; × "
_SUMS: Final = (
    *("projected_spend_usd", "projected_savings_usd", "verified_savings_usd"),
    *("estimated_savings_usd", "estimated_savings_low_usd", "estimated_savings_high_usd"),
    *("conditional_savings_usd", "conditional_savings_low_usd", "conditional_savings_high_usd"),
)
_IMPACTS: Final = ("monthly_cost_impact_usd", "impact_low", "impact_high")

AnyReport = TypeVar("AnyReport", bound=Report)


def as_import(report: AnyReport) -> AnyReport:
    """Return a batch's report without projections, unless its calls cover a week."""
    audit = report.audit
    if audit.observed_days >= LEAST_DAYS or not audit.projection:
        return report
    factor = _factor(audit)
    findings = [
        replace(
            finding,
            **_divided(finding, _IMPACTS, factor),
            formula=_without_projection(finding.formula),
            is_monthly=False,
        )
        for finding in report.findings
    ]
    return replace(
        report,
        audit=replace(
            audit, **_divided(audit, _SUMS, factor), projection=IMPORT, monthly_factor=1.0
        ),
        findings=tuple(findings),
        remainders=tuple(
            replace(each, **_divided(each, _IMPACTS[:1], factor)) for each in report.remainders
        ),
    )


def _factor(audit: AuditSummary) -> Decimal:
    return Decimal(str(audit.monthly_factor or 1)) if is_monthly(audit) else Decimal(1)


def _divided(source: Any, names: tuple[str, ...], factor: Decimal) -> dict[str, Any]:
    values = {name: getattr(source, name) for name in names}
    return {name: value if value is None else value / factor for name, value in values.items()}


def _without_projection(formula: str) -> str:
    sums, projected, _ = formula.partition(_PROJECTION)
    return f"{sums}." if projected else formula
