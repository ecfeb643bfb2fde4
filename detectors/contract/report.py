"""The report document and its parts."""

from decimal import Decimal
from typing import Final, Literal, Self

import msgspec
from msgspec import Struct

from detectors.contract.record import InvalidRow
from detectors.contract.thresholds import Thresholds

LONGEST_LIST: Final = 1_000  # of a report document's models and routes


class Evidence(Struct, frozen=True, kw_only=True):
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
        """Return the prompt tokens above the norm."""
        return max(0.0, self.prompt_tokens - self.norm_tokens) if self.norm_tokens else 0.0


class Finding(Struct, frozen=True, kw_only=True):
    """What one detector found in one (route, provider, model).

    `calls` counts the flagged calls of the window, whose savings add up to
    `observed_cost_impact_usd`; times the factor of the projection, that is the monthly impact.
    Dollar fields are US dollars rounded to 9 decimals. `impact_low` and `impact_high` are the range
    of the monthly impact, null in documents of earlier versions. `first_seen` and `last_seen` are
    the times of the first and the last flagged call in the whole log. `formula` shows how the
    dollars were calculated; it is empty if no savings are claimed.
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


class AuditSummary(Struct, frozen=True, kw_only=True):
    """The audit's totals. `first_call` and `last_call` are ISO 8601 in UTC, null without calls.

    Monthly dollars are those of the window, times `monthly_factor`. `window_start` is the beginning
    of the window, `span_days` the time that all calls cover. `projection` is `good`, `rough`,
    `very rough`, or `none`: then nothing is called monthly, and the factor is 1.
    `projected_savings_usd` is the sum of verified and estimated savings; conditional savings, which
    need the user's own evaluation of a cheaper model, are in no other figure. `stray_calls` are at
    `stray_times`, far from all others: they count in `total_spend_usd` only. In documents of
    earlier versions, `projection` is empty and the dollars by confidence are null.
    """

    records: int
    valid_pct: float
    echoes_dropped: int
    observed_days: int
    first_call: str | None
    last_call: str | None
    total_spend_usd: Decimal
    projected_spend_usd: Decimal
    savings_pct: float
    projected_savings_usd: Decimal
    equiv_spend: bool
    below_floor: int
    overfull_records: int = 0
    projection: str = ""
    span_days: float = 0.0
    window_start: str | None = None
    monthly_factor: float = 0.0
    window_spend_usd: Decimal = Decimal(0)
    verified_savings_usd: Decimal | None = None
    estimated_savings_usd: Decimal | None = None
    estimated_savings_low_usd: Decimal | None = None
    estimated_savings_high_usd: Decimal | None = None
    conditional_savings_usd: Decimal | None = None
    conditional_savings_low_usd: Decimal | None = None
    conditional_savings_high_usd: Decimal | None = None
    stray_calls: int = 0
    stray_times: tuple[str, ...] = ()


class DataQuality(Struct, frozen=True, kw_only=True):
    """What limits how far the figures can be trusted; shares are percentages, 0 to 100.

    `routes_used_once` counts the routes with a single call. Shares of spend are of priced calls.
    """

    priced_tokens_pct: float = 100.0
    equiv_spend_pct: float = 0.0
    untagged_spend_pct: float = 0.0
    hashed_calls_pct: float = 0.0
    routes_used_once: int = 0


class Remainder(Struct, frozen=True, kw_only=True):
    """The findings of one detector that are not listed: their number and monthly dollars.

    `informational` counts those that claim no savings.
    """

    detector: str
    findings: int
    informational: int
    monthly_cost_impact_usd: Decimal


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


class WiderLimits(Struct, frozen=True, kw_only=True):
    """Groups that a detector would find only with wider limits, and what that would save.

    They count in the upper end of the range in the headline only.
    """

    detector: str
    kind: str
    groups: int
    monthly_cost_impact_usd: Decimal


class SpendByModel(Struct, frozen=True, kw_only=True):
    provider: str
    model: str
    calls: int
    spend_usd: Decimal


class SpendByRoute(Struct, frozen=True, kw_only=True):
    route: str
    calls: int
    spend_usd: Decimal


class SpendByDay(Struct, frozen=True, kw_only=True):
    day: str
    calls: int
    spend_usd: Decimal


class SpendByDayAndModel(Struct, frozen=True, kw_only=True):
    day: str
    provider: str
    model: str
    spend_usd: Decimal


class SavingsByDetector(Struct, frozen=True, kw_only=True):
    """Monthly savings of all findings of one detector, including those under the floor.

    `alone_usd` is what they would save if nothing else were fixed; `composed_usd` is what they save
    of the cost that the detectors before this one leave, so these add up to the total.
    """

    detector: str
    alone_usd: Decimal
    composed_usd: Decimal


class Others(Struct, frozen=True, kw_only=True):
    """The entries that are missing from a shortened list: their number and their sums."""

    count: int = 0
    calls: int = 0
    spend_usd: Decimal = Decimal(0)


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model of the price book."""

    provider: str
    model: str


class UnpricedModel(Struct, frozen=True, kw_only=True):
    """A model without a known price; `tokens` are those of its prompts and answers.

    `suggestions` are the models of the price book with the closest names.
    """

    provider: str
    model: str
    calls: int
    tokens: int = 0
    suggestions: tuple[KnownModel, ...] = ()


class InvalidRows(Struct, frozen=True, kw_only=True):
    """`reasons` counts every invalid row by its reason; `first` lists the first 100 by line."""

    count: int
    reasons: dict[str, int]
    first: tuple[InvalidRow, ...]

    @property
    def main_reason(self) -> str:
        """Return the most common reason with the first line that has it; "" without rows."""
        if not self.reasons:
            return ""
        reason = min(self.reasons, key=lambda name: (-self.reasons[name], name))
        line = next((row.line for row in self.first if row.reason == reason), None)
        return reason if line is None else f"{reason} (first on line {line:,})"


class PriceSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The prices behind the dollars; `negotiated` lists the rates that replace list prices.

    `as_of` is the date of an update of the prices, which are otherwise those that `version` was
    released with. `aliases` lists the names that are priced as another model.
    """

    source: str
    version: str
    negotiated: tuple[str, ...] = ()
    as_of: str = ""
    aliases: tuple[str, ...] = ()


class EvidenceColumn(Struct, frozen=True, kw_only=True):
    """One column of a finding's evidence: a field of `Evidence`, its label and its format.

    `limit` is a count of which 0 means that none was set.
    """

    field: str
    label: str
    format: Literal["time", "count", "limit", "usd"]


class Method(Struct, frozen=True, kw_only=True):
    """The rules of one detector."""

    detector: str
    title: str
    costs_you: str
    fires_on: str
    stays_quiet_on: str
    do_instead: str
    sources: str
    evidence: tuple[EvidenceColumn, ...] = ()


class Report(Struct, frozen=True, kw_only=True):
    """The report document: everything that a page, a PDF or the API shows.

    The lists of models, routes and unpriced models have the first `LONGEST_LIST` entries; the
    `other_` fields sum the others. `spend_by_day_and_model` has the most expensive models. Fields
    with a default were added later, so stored documents may lack them.
    """

    audit: AuditSummary
    findings: tuple[Finding, ...]
    spend_by_model: tuple[SpendByModel, ...]
    spend_by_route: tuple[SpendByRoute, ...]
    spend_by_day: tuple[SpendByDay, ...]
    unpriced: tuple[UnpricedModel, ...]
    invalid_rows: InvalidRows
    prices: PriceSource
    thresholds: Thresholds
    spend_by_day_and_model: tuple[SpendByDayAndModel, ...] = ()
    savings_by_detector: tuple[SavingsByDetector, ...] = ()
    other_models: Others = Others()
    other_routes: Others = Others()
    other_unpriced: Others = Others()
    methods: tuple[Method, ...] = ()
    remainders: tuple[Remainder, ...] = ()
    no_longer_happening: tuple[PastFinding, ...] = ()
    other_past_findings: int = 0
    wider_limits: tuple[WiderLimits, ...] = ()
    data_quality: DataQuality | None = None

    def to_json(self) -> bytes:
        """Encode as JSON, with dollars as numbers; the same report gives the same bytes."""
        return _REPORT_ENCODER.encode(self)

    @classmethod
    def from_json(cls, document: bytes) -> Self:
        """Decode what `to_json` wrote; anything else raises `msgspec.ValidationError`."""
        return msgspec.json.decode(document, type=cls)


_REPORT_ENCODER = msgspec.json.Encoder(decimal_format="number")
