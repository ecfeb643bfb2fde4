"""The report document and its parts."""

from decimal import Decimal
from typing import Final, Literal, Self

import msgspec
from msgspec import Struct

from detectors.contract.record import InvalidRow
from detectors.contract.thresholds import Thresholds

LONGEST_LIST: Final = 1_000  # of a report document's models and routes


class Evidence(Struct, frozen=True, kw_only=True):
    """One flagged call, as counts. `cost_usd` and `saving_usd` are US dollars of this call."""

    ts: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    declared_max_tokens: int
    cost_usd: Decimal
    saving_usd: Decimal


class Finding(Struct, frozen=True, kw_only=True):
    """What one detector found in one (route, provider, model).

    `calls` counts the flagged calls. Dollar fields are US dollars rounded to 9 decimals. `formula`
    shows how they were calculated; it is empty if no savings are claimed.
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


class AuditSummary(Struct, frozen=True, kw_only=True):
    """The audit's totals. `first_call` and `last_call` are ISO 8601 in UTC, null without calls."""

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

    def to_json(self) -> bytes:
        """Encode as JSON, with dollars as numbers; the same report gives the same bytes."""
        return _REPORT_ENCODER.encode(self)

    @classmethod
    def from_json(cls, document: bytes) -> Self:
        """Decode what `to_json` wrote; anything else raises `msgspec.ValidationError`."""
        return msgspec.json.decode(document, type=cls)


_REPORT_ENCODER = msgspec.json.Encoder(decimal_format="number")
