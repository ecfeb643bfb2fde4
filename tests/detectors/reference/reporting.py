"""Which findings a report lists, in which order, and what it says of the others."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from tests.detectors.reference.calls import Call
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.projection import Projection
from tests.detectors.reference.wastes import INFORMATIONAL, POSITIVE, Waste


@dataclass(frozen=True, slots=True)
class Found:
    """One finding of the report: calls and dollars of the window, seen in the whole log."""

    id: str
    detector: str
    kind: str
    route: str
    provider: str
    model: str
    calls: int
    confidence: str
    severity: str
    monthly: float
    low: float
    high: float
    observed: float
    first_seen: int
    last_seen: int
    suggested_model: str
    waste: Waste


@dataclass(frozen=True, slots=True)
class Gone:
    """A finding whose calls all lie before the window."""

    detector: str
    kind: str
    group: tuple[str, str, str]
    calls: int
    confidence: str
    first_seen: int
    last_seen: int
    observed: float


@dataclass(frozen=True, slots=True)
class Listed:
    """The findings by rank, and those left out: per detector, the numbers of claims and of others,
    and the dollars of the claims."""

    findings: tuple[Found, ...]
    others: dict[str, tuple[int, int, float]]


def split(
    wastes: Sequence[Waste], period: Projection
) -> tuple[list[Waste], tuple[Gone, ...], list[Waste]]:
    """Return what counts now, what happens no longer, and what only the high limits reach."""
    current, gone, only_high = [], [], []
    for waste in wastes:
        if not waste.savings:
            if _in_window(waste.highs, period) > POSITIVE:
                only_high.append(waste)
        elif all(call.microseconds < period.window_start for call in waste.savings):
            gone.append(_gone(waste))
        elif _counts(waste, period):
            current.append(waste)
    return current, tuple(gone), only_high


def _counts(waste: Waste, period: Projection) -> bool:
    if waste.confidence == INFORMATIONAL:
        return any(period.has(call.microseconds) for call in waste.savings)
    return _in_window(waste.savings, period) > POSITIVE


def _gone(waste: Waste) -> Gone:
    return Gone(
        waste.detector,
        waste.kind,
        waste.group,
        len(waste.savings),
        waste.confidence,
        min(call.microseconds for call in waste.savings),
        max(call.microseconds for call in waste.savings),
        fsum(waste.savings.values()),
    )


def listed(wastes: Sequence[Waste], period: Projection, limits: Limits) -> Listed:
    """Rank what counts; the first of each detector are listed with their numbers."""
    claims = [waste for waste in wastes if waste.confidence != INFORMATIONAL]
    others = [waste for waste in wastes if waste.confidence == INFORMATIONAL]
    claims.sort(key=lambda waste: (-monthly(waste, period), _name(waste)))
    others.sort(key=lambda waste: (-_spend(waste, period), _name(waste)))
    shown = [waste for waste in claims if monthly(waste, period) >= limits.floor_usd]
    shown = shown[: limits.max_findings]
    shown += others[: limits.max_informational_findings]
    is_shown = {id(waste) for waste in shown}
    left: dict[str, list[Waste]] = defaultdict(list)
    for waste in wastes:
        if id(waste) not in is_shown:
            left[waste.detector].append(waste)
    numbers: Counter[str] = Counter()
    findings = []
    for waste in shown:
        short = waste.detector[:2]
        numbers[short] += 1
        findings.append(_found(f"{short}-{numbers[short]:03}", waste, period, limits))
    findings.sort(key=lambda found: (-found.monthly, found.id))
    tails = {detector: _tail(rest, period) for detector, rest in left.items()}
    return Listed(tuple(findings), tails)


def _tail(rest: list[Waste], period: Projection) -> tuple[int, int, float]:
    silent = sum(waste.confidence == INFORMATIONAL for waste in rest)
    return len(rest) - silent, silent, fsum(monthly(waste, period) for waste in rest)


def _found(id_: str, waste: Waste, period: Projection, limits: Limits) -> Found:
    route, provider, model = waste.group
    dollars = monthly(waste, period)
    times = [call.microseconds for call in waste.savings]
    return Found(
        id=id_,
        detector=waste.detector,
        kind=waste.kind,
        route=route or model,
        provider=provider,
        model=model,
        calls=sum(period.has(instant) for instant in times),
        confidence=waste.confidence,
        severity=_severity(dollars, limits),
        monthly=dollars,
        low=min(max(_month(waste.lows, period), 0.0), dollars),
        high=max(_month(waste.highs, period), dollars),
        observed=_in_window(waste.savings, period),
        first_seen=min(times),
        last_seen=max(times),
        suggested_model=waste.suggested_model,
        waste=waste,
    )


def monthly(waste: Waste, period: Projection) -> float:
    return _month(waste.savings, period)


def _month(savings: dict[Call, float], period: Projection) -> float:
    # Rounded as the report rounds, so that a figure on a limit is on it in every engine.
    return round(_in_window(savings, period) * period.factor, 9)


def _in_window(savings: dict[Call, float], period: Projection) -> float:
    return fsum(saving for call, saving in savings.items() if period.has(call.microseconds))


def _spend(waste: Waste, period: Projection) -> float:
    costs = (call.cost for call in waste.savings if period.has(call.microseconds))
    return round(fsum(costs) * period.factor, 9)


def _severity(dollars: float, limits: Limits) -> str:
    if dollars >= limits.high_severity_usd:
        return "high"
    return "medium" if dollars >= limits.medium_severity_usd else "low"


def _name(waste: Waste) -> tuple[str, ...]:
    return (waste.detector, waste.kind, *waste.group)
