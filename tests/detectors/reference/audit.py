"""The whole audit, slowly: what is found, what it costs a month, and what is reported of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC
from math import fsum
from typing import TypeVar

from detectors.contract import UsageRecord
from tests.detectors.reference.bloat import context_bloat
from tests.detectors.reference.cache_users import cache_users
from tests.detectors.reference.caching import uncached_prefixes, unhashed_prefixes
from tests.detectors.reference.calls import Call, priced, without_echoes
from tests.detectors.reference.catalog import flat_rate_labels
from tests.detectors.reference.composition import Sums, compose
from tests.detectors.reference.duplicates import duplicate_calls
from tests.detectors.reference.limits import Limits
from tests.detectors.reference.loops import chatty_loop
from tests.detectors.reference.overkill import model_overkill
from tests.detectors.reference.pricing import is_list_price
from tests.detectors.reference.projection import Projection, projection
from tests.detectors.reference.reporting import Found, Gone, Listed, listed, split
from tests.detectors.reference.token_limits import max_tokens_misfit
from tests.detectors.reference.wastes import Waste

Key = TypeVar("Key")

RULES = (
    model_overkill,
    uncached_prefixes,
    unhashed_prefixes,
    cache_users,
    context_bloat,
    duplicate_calls,
    max_tokens_misfit,
    chatty_loop,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the report must say; dollars are US dollars."""

    records: int
    echoes_dropped: int
    overfull_records: int
    projection: Projection
    total_spend: float
    projected_spend: float
    sums: Sums
    savings_pct: float
    equiv_spend: bool
    plan_value: float
    listed: Listed
    no_longer: tuple[Gone, ...]
    only_high: tuple[Waste, ...]
    spend_by_model: dict[tuple[str, str], float]
    spend_by_day: dict[str, float]
    unpriced: dict[tuple[str, str], int]

    @property
    def findings(self) -> tuple[Found, ...]:
        return self.listed.findings


def audit(records: Iterable[UsageRecord], limits: Limits | None = None) -> Outcome:
    limits = limits or Limits()
    given = list(records)
    kept = without_echoes(given)
    metered = [record for record in kept if record.provider not in flat_rate_labels()]
    included = priced([record for record in kept if record.provider in flat_rate_labels()])
    calls = priced(metered)
    period = projection(metered, limits)
    wastes = [waste for rule in RULES for waste in rule(calls, limits)]
    current, gone, only_high = split(wastes, period)
    in_window = [call for call in calls if period.has(call.microseconds)]
    sums = compose(in_window, [*current, *only_high], period.factor)
    known = {id(call.record) for call in calls}
    projected = fsum(call.cost for call in in_window) * period.factor
    saved = sums.verified.stated + sums.estimated.stated
    return Outcome(
        records=len(kept),
        echoes_dropped=len(given) - len(kept),
        overfull_records=sum(_is_overfull(record) for record in kept),
        projection=period,
        total_spend=fsum(call.cost for call in calls),
        projected_spend=projected,
        sums=sums,
        savings_pct=100 * saved / projected if projected else 0.0,
        equiv_spend=any(is_list_price(call.record.provider) for call in [*calls, *included]),
        plan_value=fsum(call.cost for call in included),
        listed=listed(current, period, limits),
        no_longer=gone,
        only_high=tuple(only_high),
        spend_by_model=_spend(((c.record.provider, c.record.model), c.cost) for c in calls),
        spend_by_day=_spend((_day(call), call.cost) for call in calls),
        unpriced=dict(Counter((r.provider, r.model) for r in metered if id(r) not in known)),
    )


def _is_overfull(record: UsageRecord) -> bool:
    cached = (record.cached_tokens or 0) + (record.cache_write_tokens or 0)
    return cached > record.prompt_tokens


def _day(call: Call) -> str:
    return call.record.ts.astimezone(UTC).date().isoformat()


def _spend(costs: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    spend: dict[Key, list[float]] = defaultdict(list)
    for key, cost in costs:
        spend[key].append(cost)
    return {key: fsum(of_key) for key, of_key in spend.items()}


def calls_of(records: Sequence[UsageRecord]) -> list[Call]:
    """Return the priced calls of a log, as the rules see them."""
    kept = without_echoes(records)
    return priced([each for each in kept if each.provider not in flat_rate_labels()])
