"""The report of one batch of a continuous stream: its own dollars, and nothing monthly.

The document stays as it is; only what people read differs.
"""

from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from detectors.contract import Report
from detectors.wording.impact import severity
from detectors.wording.projection import IMPORT, is_monthly, per_month

LEAST_DAYS: Final = 7
# A formula ends with how its dollars are projected.
_PROJECTION: Final = "; × "
_SUMS: Final = (
    *("projected_spend_usd", "projected_savings_usd", "verified_savings_usd"),
    *("estimated_savings_usd", "estimated_savings_low_usd", "estimated_savings_high_usd"),
    *("conditional_savings_usd", "conditional_savings_low_usd", "conditional_savings_high_usd"),
)
_IMPACTS: Final = ("monthly_cost_impact_usd", "impact_low", "impact_high")
_BY_DETECTOR: Final = ("alone_usd", "composed_usd")
_NANO_USD: Final = Decimal("1e-9")

AnyReport = TypeVar("AnyReport", bound=Report)


class ShownSavings(NamedTuple):
    """What the page of an audit's report says of it: dollars, and the unit that follows them."""

    avoidable_usd: Decimal
    conditional_usd: Decimal
    unit: str


class Summary(Protocol):
    """The sums of an audit, as a list has them; some are null in earlier releases."""

    @property
    def projection(self) -> str | None: ...
    @property
    def observed_days(self) -> int: ...
    @property
    def monthly_factor(self) -> float | None: ...
    @property
    def projected_savings_usd(self) -> Decimal: ...
    @property
    def conditional_savings_high_usd(self) -> Decimal | None: ...


def show_savings(summary: Summary, *, is_batch: bool) -> ShownSavings:
    """Return the savings of an audit as its report shows them: a batch of days, its own dollars."""
    is_own = is_batch and has_own_dollars(summary)
    factor = Decimal(1)
    if is_own and is_monthly(summary):
        factor = Decimal(str(summary.monthly_factor or 1))
    return ShownSavings(
        summary.projected_savings_usd / factor,
        (summary.conditional_savings_high_usd or Decimal(0)) / factor,
        " in this import" if is_own else per_month(summary),
    )


def has_own_dollars(audit: Summary) -> bool:
    """Check whether a batch with this summary shows its own dollars: its calls cover no week."""
    return audit.observed_days < LEAST_DAYS and bool(audit.projection)


def as_import(report: AnyReport) -> AnyReport:
    """Return a batch's report without projections, unless its calls cover a week."""
    audit = report.audit
    if not has_own_dollars(audit):
        return report
    factor = Decimal(str(audit.monthly_factor or 1)) if is_monthly(audit) else Decimal(1)
    findings = []
    for finding in report.findings:
        values = _divided(finding, _IMPACTS, factor)
        sums, projected, _ = finding.formula.partition(_PROJECTION)
        own = replace(
            finding,
            **values,
            severity=severity(values[_IMPACTS[0]], report.thresholds),
            formula=f"{sums}." if projected else finding.formula,
            is_monthly=False,
        )
        findings.append(own)
    return replace(
        report,
        audit=replace(
            audit, **_divided(audit, _SUMS, factor), projection=IMPORT, monthly_factor=1.0
        ),
        findings=tuple(findings),
        savings_by_detector=tuple(
            replace(each, **_divided(each, _BY_DETECTOR, factor))
            for each in report.savings_by_detector
        ),
        remainders=tuple(
            replace(each, **_divided(each, _IMPACTS[:1], factor)) for each in report.remainders
        ),
        wider_limits=tuple(
            replace(each, **_divided(each, _IMPACTS[:1], factor)) for each in report.wider_limits
        ),
    )


def _divided(source: Any, names: tuple[str, ...], factor: Decimal) -> dict[str, Any]:
    values = {name: getattr(source, name) for name in names}
    return {
        name: None if value is None else (value / factor).quantize(_NANO_USD)
        for name, value in values.items()
    }
