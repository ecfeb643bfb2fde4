"""The whole audit, slowly: composition, monthly dollars, the floor and the list of findings."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from math import fsum, prod
from typing import TypeVar

from detectors import Thresholds
from detectors.contract import UsageRecord
from tests.detectors.reference.calls import Call, priced, without_echoes
from tests.detectors.reference.pricing import is_list_price, price
from tests.detectors.reference.pricing_rules import context_bloat, missed_caching, model_overkill
from tests.detectors.reference.timing_rules import (
    chatty_loop,
    duplicate_calls,
    max_tokens_misfit,
)
from tests.detectors.reference.wastes import INFORMATIONAL, Waste

Key = TypeVar("Key")

RULES = (
    model_overkill,
    missed_caching,
    context_bloat,
    duplicate_calls,
    max_tokens_misfit,
    chatty_loop,
)


@dataclass(frozen=True, slots=True)
class Line:
    """One finding of the report."""

    detector: str
    kind: str
    route: str
    provider: str
    model: str
    calls: int
    severity: str
    confidence: str
    monthly: float
    observed: float
    suggested_model: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report must say; dollars are US dollars."""

    records: int
    echoes_dropped: int
    overfull_records: int
    observed_days: int
    total_spend: float
    projected_spend: float
    savings_pct: float
    projected_savings: float
    equiv_spend: bool
    below_floor: int
    lines: tuple[Line, ...]
    spend_by_model: dict[tuple[str, str], float]
    spend_by_day: dict[str, float]
    unpriced: dict[tuple[str, str], int]


def audit(records: Iterable[UsageRecord], limits: Thresholds | None = None) -> Outcome:
    limits = limits or Thresholds()
    given = list(records)
    kept = without_echoes(given)
    calls = priced(kept)
    days = observed_days(kept)
    months = limits.days_per_month / days
    wastes = [waste for rule in RULES for waste in rule(calls, limits)]
    lines = [_line(waste, months, limits) for waste in wastes]
    shown = [line for line in lines if not _is_below_floor(line, limits)]
    total = fsum(call.cost for call in calls)
    saved = min(max(_combined(calls, wastes), 0.0), total)
    return Outcome(
        records=len(kept),
        echoes_dropped=len(given) - len(kept),
        overfull_records=sum(_is_overfull(record) for record in kept),
        observed_days=days,
        total_spend=total,
        projected_spend=total * months,
        savings_pct=100 * saved / total if total else 0.0,
        projected_savings=saved * months,
        equiv_spend=any(is_list_price(call.record.provider) for call in calls),
        below_floor=len(lines) - len(shown),
        lines=tuple(sorted(shown, key=lambda line: -line.monthly)),
        spend_by_model=_spend(((c.record.provider, c.record.model), c.cost) for c in calls),
        spend_by_day=_spend((c.ts.astimezone(UTC).date().isoformat(), c.cost) for c in calls),
        unpriced=dict(Counter((r.provider, r.model) for r in kept if price(r) is None)),
    )


def observed_days(records: Sequence[UsageRecord]) -> int:
    """Calendar days in UTC from the first to the last call, both included."""
    dates = [record.ts.astimezone(UTC).date() for record in records]
    return (max(dates) - min(dates)).days + 1 if dates else 1


def _line(waste: Waste, months: float, limits: Thresholds) -> Line:
    route, provider, model = waste.group
    # Rounded as the report rounds, so that a figure on a limit is on it in every engine.
    monthly = round(waste.observed * months, 9)
    return Line(
        detector=waste.detector,
        kind=waste.kind,
        route=route or model,
        provider=provider,
        model=model,
        calls=len(waste.savings),
        severity=_severity(monthly, limits),
        confidence=waste.confidence,
        monthly=monthly,
        observed=waste.observed,
        suggested_model=waste.suggested_model,
    )


def _severity(monthly: float, limits: Thresholds) -> str:
    if monthly >= limits.high_severity_usd:
        return "high"
    return "medium" if monthly >= limits.medium_severity_usd else "low"


def _is_below_floor(line: Line, limits: Thresholds) -> bool:
    return line.confidence != INFORMATIONAL and line.monthly < limits.floor_usd


def _combined(calls: Sequence[Call], wastes: Sequence[Waste]) -> float:
    """The sum of every call's combined saving, in which no dollar counts twice."""
    by_call: dict[Call, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for waste in wastes:
        for call, saving in waste.savings.items():
            by_call[call][waste.detector] += saving
    return fsum(_call_saving(call.cost, by_call[call].values()) for call in calls)


def _call_saving(cost: float, savings: Iterable[float]) -> float:
    if cost == 0:
        return 0.0
    return cost * (1 - prod(1 - min(saving, cost) / cost for saving in savings))


def _is_overfull(record: UsageRecord) -> bool:
    cached = (record.cached_tokens or 0) + (record.cache_write_tokens or 0)
    return cached > record.prompt_tokens


def _spend(costs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    spend: dict[Key, float] = defaultdict(float)
    for key, cost in costs:
        spend[key] += cost
    return dict(spend)
