"""Report documents of any size with consistent numbers, and hostile labels."""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from detectors import Finding, Report, Thresholds
from detectors.contract import (
    AuditSummary,
    Evidence,
    InvalidRow,
    InvalidRows,
    Others,
    PriceSource,
    SavingsByDetector,
    SpendByDay,
    SpendByDayAndModel,
    SpendByModel,
    SpendByRoute,
    UnpricedModel,
)
from detectors.rules.methods import METHODS
from detectors.wording.names import introduce_detectors

HOSTILE_LABELS: Final = (
    "<script>alert(1)</script>",
    "</title></svg><img src=x onerror=alert(1)>",
    '=HYPERLINK("https://example.org","click")',
    "+1+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd",
    " =1+1",
    "\u202etxt.exe",
    "שלום עולם",
    "مرحبا بالعالم",
    "w" * 200,
    "emoji 😀 👩‍💻 🇨🇭",
    "{{ 7*7 }} {% raw %} ${7*7}",
    "Ünïcödé Ωμέγα Привет 漢字",
    "a&b;\"quoted\" 'single' `tick`",
)
_DETECTORS: Final = tuple(introduce_detectors())
_CENT: Final = Decimal("0.01")
_FIRST: Final = date(2026, 2, 1)


def make_scaled_report(
    *,
    findings: int = 40,
    days: int = 14,
    records: int = 4_800,
    models: int = 6,
    labels: tuple[str, ...] = ("support-bot",),
) -> Report:
    """A report of so many of each; routes are as many as findings, at least one."""
    total = max(Decimal(records) * Decimal("0.173"), _CENT).quantize(_CENT)
    monthly = (total * 30 / days).quantize(_CENT)
    share = Decimal("0.24") if findings else Decimal(0)
    names = [f"{labels[at % len(labels)]}{at if at >= len(labels) else ''}" for at in range(models)]
    parts = _split(total, models)
    return Report(
        audit=_summary(records, days, total, share),
        findings=tuple(_finding(at, findings, monthly * share, labels) for at in range(findings)),
        spend_by_model=tuple(
            SpendByModel(
                provider="openai", model=name[:200], calls=records // models or 1, spend_usd=part
            )
            for name, part in zip(names, parts, strict=True)
        ),
        spend_by_route=tuple(
            SpendByRoute(route=name[:200], calls=records // models or 1, spend_usd=part)
            for name, part in zip(names, parts, strict=True)
        ),
        spend_by_day=tuple(
            SpendByDay(
                day=str(_FIRST + timedelta(days=at)), calls=records // days or 1, spend_usd=part
            )
            for at, part in enumerate(_wave(total, days))
        ),
        unpriced=(),
        invalid_rows=InvalidRows(count=0, reasons={}, first=()),
        prices=PriceSource(source="genai-prices", version="0.2.3"),
        thresholds=Thresholds(),
        spend_by_day_and_model=_daily(names, total, days),
        savings_by_detector=tuple(
            SavingsByDetector(
                detector=one,
                alone_usd=monthly * share / 4 if findings else Decimal(0),
                composed_usd=monthly * share / 6 if findings else Decimal(0),
            )
            for one in _DETECTORS
        ),
        other_routes=Others(count=166_000, calls=9, spend_usd=_CENT)
        if findings >= 400
        else Others(),
        methods=METHODS,
    )


def _summary(records: int, days: int, total: Decimal, share: Decimal) -> AuditSummary:
    monthly = (total * 30 / days).quantize(_CENT)
    return AuditSummary(
        records=records,
        valid_pct=100.0,
        echoes_dropped=0,
        observed_days=days,
        first_call=f"{_FIRST}T00:00:03Z",
        last_call=f"{_FIRST + timedelta(days=days - 1)}T23:59:01Z",
        total_spend_usd=total,
        projected_spend_usd=monthly,
        savings_pct=float(share * 100),
        projected_savings_usd=monthly * share,
        equiv_spend=False,
        below_floor=0,
    )


def _daily(names: list[str], total: Decimal, days: int) -> tuple[SpendByDayAndModel, ...]:
    return tuple(
        SpendByDayAndModel(
            day=str(_FIRST + timedelta(days=at)), provider="openai", model=name[:200], spend_usd=one
        )
        for at, part in enumerate(_wave(total, days))
        for name, one in list(zip(names, _split(part, len(names)), strict=True))[:8]
    )


def make_hostile_report() -> Report:
    """Every label field says something hostile."""
    report = make_scaled_report(findings=28, models=len(HOSTILE_LABELS), labels=HOSTILE_LABELS)
    unpriced = [UnpricedModel(provider="acme", model=one, calls=3) for one in HOSTILE_LABELS]
    invalid = InvalidRows(
        count=400,
        reasons={"prompt_tokens must be a whole number": 400},
        first=(InvalidRow(line=7, reason="prompt_tokens must be a whole number"),),
    )
    audit = {name: getattr(report.audit, name) for name in report.audit.__struct_fields__}
    summary = AuditSummary(**(audit | {"valid_pct": 91.7, "equiv_spend": True, "below_floor": 1}))
    fields = {name: getattr(report, name) for name in report.__struct_fields__}
    changed = {"audit": summary, "unpriced": tuple(unpriced), "invalid_rows": invalid}
    return Report(**(fields | changed))


def _finding(at: int, count: int, saved: Decimal, labels: tuple[str, ...]) -> Finding:
    label = labels[at % len(labels)]
    label = label if at < len(labels) else f"{label}-{at}"[:200]
    detector = _DETECTORS[at % len(_DETECTORS)]
    impact = (saved * 2 * (count - at) / (count * (count + 1))).quantize(Decimal("1e-9"))
    severity = "high" if impact >= 500 else "medium" if impact >= 50 else "low"
    return Finding(
        id=f"{detector[:2]}-{at // len(_DETECTORS) + 1:03}",
        detector=detector,
        kind="",
        route=label,
        provider="openai",
        model="gpt-5.5-pro" if len(labels) == 1 else label,
        calls=at + 1,
        severity=severity,
        confidence="ESTIMATED",
        monthly_cost_impact_usd=impact,
        observed_cost_impact_usd=impact / 2,
        fix=(
            f'Try gpt-5.5 instead of gpt-5.5-pro on "{label}": {at + 1:,} of its {at + 3:,} calls '
            "got short answers (median 94 tokens). A million tokens cost $30.00 in and $180.00 out "
            "now, $5.00 and $30.00 at gpt-5.5. Token counts cannot tell whether its answers are "
            "good enough: your own quality evaluation decides."
        ),
        evidence=tuple(
            Evidence(
                ts=f"2026-02-01T10:{minute:02}:00Z",
                model=label,
                prompt_tokens=91_252,
                completion_tokens=94,
                cached_tokens=0,
                cache_write_tokens=0,
                declared_max_tokens=0,
                cost_usd=Decimal("0.5"),
                saving_usd=Decimal("0.25"),
            )
            for minute in range(min(20, at + 1))
        ),
        formula="The full cost of 36 calls: $110.01 in 14 days; × 30 / 14 = $235.73/month.",
    )


def _split(total: Decimal, count: int) -> list[Decimal]:
    """Ever smaller parts that add up to the total."""
    return _share(total, [Decimal(1) / (at + 1) for at in range(count)])


def _wave(total: Decimal, days: int) -> list[Decimal]:
    """Less at weekends."""
    return _share(total, [Decimal(1 if at % 7 < 5 else "0.3") for at in range(days)])


def _share(total: Decimal, weights: list[Decimal]) -> list[Decimal]:
    whole = sum(weights)
    parts = [(total * one / whole).quantize(Decimal("1e-9")) for one in weights]
    return [total - sum(parts[1:], Decimal(0)), *parts[1:]]


# Everything between the smallest and the largest that is looked at.
SHAPES: Final[dict[str, Callable[[], Report]]] = {
    "nothing found": lambda: make_scaled_report(findings=0),
    "one finding": lambda: make_scaled_report(findings=1),
    "40 findings": lambda: make_scaled_report(findings=40),
    "400 findings": lambda: make_scaled_report(findings=400),
    "one call": lambda: make_scaled_report(findings=0, days=1, records=1, models=1),
    "ten million calls": lambda: make_scaled_report(
        findings=400, days=400, records=10_000_000, models=200
    ),
    "one day": lambda: make_scaled_report(days=1),
    "400 days": lambda: make_scaled_report(days=400, records=100_000),
    "hostile labels": make_hostile_report,
}
