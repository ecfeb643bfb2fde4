"""Report documents made by hand, for what prints them."""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from detectors import Finding, Report, Thresholds
from detectors.contract import AuditSummary, InvalidRows, PriceSource

# What each surface says of a report whose `d2_cache_seconds` is 60.
CHANGED_ASSUMPTIONS = (
    "Changed assumptions",
    "These differ from the detectors' defaults:",
    "A prompt cache lives for: 60 seconds (default: 300 seconds)",
)


def make_finding(rank: int, **changes: Any) -> Finding:
    finding = Finding(
        id=f"d1-{rank:03}",
        detector="d1_model_overkill",
        kind="",
        route="support-bot",
        provider="openai",
        model="gpt-5.4",
        calls=40,
        severity="high",
        confidence="ESTIMATED",
        monthly_cost_impact_usd=Decimal("1234.5"),
        observed_cost_impact_usd=Decimal("576.1"),
        fix="Try gpt-5.4-mini on this route.",
    )
    return replace(finding, **changes)


def make_report(*findings: Finding, **changes: Any) -> Report:
    audit = AuditSummary(
        records=4210,
        valid_pct=100.0,
        echoes_dropped=0,
        observed_days=14,
        first_call="2026-10-01T00:00:00Z",
        last_call="2026-10-14T23:00:00Z",
        total_spend_usd=Decimal("4666.67"),
        projected_spend_usd=Decimal(10000),
        savings_pct=31.4,
        projected_savings_usd=Decimal(3140),
        equiv_spend=False,
        below_floor=0,
    )
    return Report(
        audit=replace(audit, **changes),
        findings=findings,
        spend_by_model=(),
        spend_by_route=(),
        spend_by_day=(),
        unpriced=(),
        invalid_rows=InvalidRows(count=0, reasons={}, first=()),
        prices=PriceSource(source="genai-prices", version="1.2.3"),
        thresholds=Thresholds(),
    )
