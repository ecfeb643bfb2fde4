"""Report documents to render: a full document with any part changed."""

import dataclasses
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

import detectors
from detectors import Finding, Report, Thresholds
from detectors.contract import (
    AuditSummary,
    InvalidRow,
    InvalidRows,
    PriceSource,
    SpendByModel,
    UnpricedModel,
)


def make_finding(rank: int, **fields: object) -> Finding:
    values: dict[str, object] = {
        "id": f"d1-{rank:03d}",
        "detector": "d1_model_overkill",
        "kind": "",
        "route": "support-bot",
        "provider": "openai",
        "model": "gpt-4o",
        "calls": 1200,
        "severity": "high",
        "confidence": "ESTIMATED",
        "monthly_cost_impact_usd": Decimal("812.5"),
        "observed_cost_impact_usd": Decimal("380"),
        "fix": "Try gpt-4o-mini on this route.",
        **fields,
    }
    return msgspec.convert(values, Finding)


def make_summary(**fields: object) -> AuditSummary:
    values: dict[str, object] = {
        "records": 4800,
        "valid_pct": 99.5,
        "echoes_dropped": 12,
        "observed_days": 14,
        "first_call": "2026-02-01T00:00:03Z",
        "last_call": "2026-02-14T23:59:01Z",
        "total_spend_usd": Decimal("1234.56"),
        "projected_spend_usd": Decimal("2645.49"),
        "savings_pct": 31.25,
        "projected_savings_usd": Decimal("826.72"),
        "equiv_spend": False,
        "below_floor": 3,
        **fields,
    }
    return msgspec.convert(values, AuditSummary)


def make_report(**fields: object) -> Report:
    reasons = {"prompt_tokens must be a whole number": 24}
    first = (InvalidRow(line=7, reason="prompt_tokens must be a whole number"),)
    models = (SpendByModel(provider="openai", model="gpt-4o", calls=1200, spend_usd=Decimal(900)),)
    unpriced = (UnpricedModel(provider="acme", model="house-model", calls=40),)
    values: dict[str, object] = {
        "audit": make_summary(),
        "findings": (make_finding(1),),
        "spend_by_model": models,
        "spend_by_route": (),
        "spend_by_day": (),
        "unpriced": unpriced,
        "invalid_rows": InvalidRows(count=24, reasons=reasons, first=first),
        "prices": PriceSource(source="genai-prices", version="0.2.3"),
        "thresholds": Thresholds(),
        **fields,
    }
    return Report(**values)  # type: ignore[arg-type]


def make_report_with_gaps() -> Report:
    """Return a report of calls without a rate for their tier, region or unit, and other rows."""
    at = datetime(2026, 6, 10, 12, tzinfo=UTC)
    call = {"provider": "mistral", "model": "mistral-large-2512", "tag": "answers"}
    counts = {"prompt_tokens": 1_000, "completion_tokens": 100}
    odd: list[dict[str, Any]] = [
        *[{"service_tier": "priority"}] * 40,
        *[{"service_tier": "ultrafast"}] * 30,
        *[{"provider": "openai", "model": "gpt-4o-mini", "region": "eu-south-9"}] * 20,
        *[{"audio_prompt_tokens": 90}] * 10,
    ]
    calls = [
        {"ts": at + timedelta(minutes=number), **call, **counts, **each}
        for number, each in enumerate(odd)
    ]
    skipped = {"failed, so not billed": 3, "answered from a gateway's cache, so not billed": 2}
    return detectors.audit(dataclasses.replace(detectors.read(calls), dropped=skipped))
