"""Findings, with the calls behind them, and what a report only counts."""

from datetime import date
from decimal import Decimal

from msgspec import Struct


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One flagged call, as counts. `cost_usd` and `saving_usd` are US dollars of this call.

    The last fields are what a detector's formula uses beside counts and rates, 0 where it has no
    use for them: the median of comparable prompts, the tokens that a cache would hold, the time
    since the call before, and a number of its own.
    """

    ts: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    declared_max_tokens: int
    cost_usd: Decimal
    saving_usd: Decimal
    request_id: str = ""
    norm_tokens: float = 0.0
    prefix_tokens: float = 0.0
    pause_seconds: float = 0.0
    basis: float = 0.0

    @property
    def excess_tokens(self) -> float:
        return max(0.0, self.prompt_tokens - self.norm_tokens) if self.norm_tokens else 0.0


class Finding(Struct, frozen=True, kw_only=True):
    """What one detector found in one (route, provider, model).

    `calls` counts the flagged calls of the window, whose savings add up to
    `observed_cost_impact_usd`; times the factor of the projection, that is the monthly impact.
    Dollar fields are US dollars rounded to 9 decimals. `impact_low` and `impact_high` are the range
    of the monthly impact, null in documents of earlier versions. `first_seen` and `last_seen` are
    the times of the first and the last flagged call in the whole log. A finding whose log is too
    short for monthly dollars is not `is_monthly`. `formula` shows how the dollars were calculated;
    it is empty if no savings are claimed.
    """

    id: str
    detector: str
    kind: str
    route: str
    provider: str
    model: str
    calls: int
    severity: str
    confidence: str
    monthly_cost_impact_usd: Decimal
    observed_cost_impact_usd: Decimal
    fix: str
    suggested_model: str | None = None
    evidence: tuple[Evidence, ...] = ()
    formula: str = ""
    impact_low: Decimal | None = None
    impact_high: Decimal | None = None
    first_seen: str | None = None
    last_seen: str | None = None
    is_monthly: bool = True


class PastFinding(Struct, frozen=True, kw_only=True):
    """A finding whose calls all lie before the window; the dollars are of all of these calls."""

    detector: str
    kind: str
    route: str
    provider: str
    model: str
    calls: int
    confidence: str
    first_seen: str
    last_seen: str
    observed_cost_impact_usd: Decimal


class Remainder(Struct, frozen=True, kw_only=True):
    """The findings of one detector that are not listed: their number and monthly dollars.

    `informational` counts those that claim no savings.
    """

    detector: str
    findings: int
    informational: int
    monthly_cost_impact_usd: Decimal


class WiderLimits(Struct, frozen=True, kw_only=True):
    """Groups that a detector would find only with wider limits, and what that would save.

    They count in the upper end of the range in the headline only.
    """

    detector: str
    kind: str
    groups: int
    monthly_cost_impact_usd: Decimal


class SavingsByDetector(Struct, frozen=True, kw_only=True):
    """Monthly savings of all findings of one detector, including those under the floor.

    `alone_usd` is what they would save if nothing else were fixed; `composed_usd` is what they save
    of the cost that the detectors before this one leave, so these add up to the total.
    """

    detector: str
    alone_usd: Decimal
    composed_usd: Decimal


class FindingDay(Struct, frozen=True, kw_only=True):
    """The flagged calls of one finding on one day in UTC, and what they could have saved."""

    finding_id: str
    day: date
    calls: int
    saving_usd: Decimal
