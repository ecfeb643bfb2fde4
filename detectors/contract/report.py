"""The report document and its parts."""

from datetime import timedelta
from decimal import Decimal
from typing import Final, Literal, Self

import msgspec
from msgspec import UNSET, Struct, UnsetType

from detectors.contract.assumptions import AssumedThresholds
from detectors.contract.findings import (
    Finding,
    PastFinding,
    Remainder,
    SavingsByDetector,
    WiderLimits,
)
from detectors.contract.record import InvalidRow
from detectors.contract.spend import (
    Others,
    PlanUsage,
    SpendByDay,
    SpendByDayAndModel,
    SpendByModel,
    SpendByRoute,
    UnpricedModel,
)

LONGEST_LIST: Final = 1_000  # of a report document's models and routes
# Clocks differ, and some are set to a time zone. Calls later than this are dated in the future.
CLOCK_MARGIN: Final = timedelta(days=1)


class AuditSummary(Struct, frozen=True, kw_only=True):
    """The audit's totals. `first_call` and `last_call` are ISO 8601 in UTC, null without calls.

    Monthly dollars are those of the window, times `monthly_factor`. `window_start` is the beginning
    of the window, `span_days` the time that all calls cover. `projection` is `good`, `rough`,
    `very rough`, or `none`: then nothing is called monthly, and the factor is 1.
    `projected_savings_usd` is the sum of verified and estimated savings; conditional savings, which
    need the user's own evaluation of a cheaper model, are in no other figure. `outlier_calls` are
    far from all others, at `outlier_times`: they count in `total_spend_usd` only. `records` counts
    the calls that a plan includes, too, and `included_calls` only them, if there are any; no other
    figure does. In documents of earlier versions, `projection` is empty and the dollars by
    confidence are null.
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
    outlier_calls: int = 0
    outlier_times: tuple[str, ...] = ()
    included_calls: int | UnsetType = UNSET

    @property
    def metered_calls(self) -> int:
        return self.records - (self.included_calls or 0)


class UnknownField(Struct, frozen=True):
    """A number in usage objects that we don't know, by the path of its name; "" for a text.

    `largest` is the largest unknown number of these calls, of which a call may have several.
    """

    name: str
    calls: int
    largest: int


class SkippedRows(Struct, frozen=True):
    """How many rows of a log were no calls to bill for a reason."""

    reason: str
    rows: int


class ReportedModel(Struct, frozen=True, kw_only=True):
    """The cost of a model's calls as their source reports it, and as counts and prices give it."""

    provider: str
    model: str
    calls: int
    reported_usd: Decimal
    spend_usd: Decimal

    @property
    def difference_usd(self) -> Decimal:
        return self.spend_usd - self.reported_usd


class ReportedCosts(Struct, frozen=True, kw_only=True):
    """Priced calls whose source reports a cost; the models that differ most come first.

    The sums are of all models, the list has the first thousand.
    """

    calls: int
    reported_usd: Decimal
    spend_usd: Decimal
    models: tuple[ReportedModel, ...]


class MissingRate(Struct, frozen=True, kw_only=True):
    """Calls of a model for which a rate is missing: of their tier, their region or a unit.

    `name` is the tier, the region, or the record's field or unit. Calls at such a tier or in such a
    region cost what others do; a unit is billed with the tokens that it is part of, a fee or a
    measure not at all.
    """

    kind: Literal["tier", "region", "unit"]
    name: str
    provider: str
    model: str
    calls: int
    first_call: str
    last_call: str


class DataQuality(Struct, frozen=True, kw_only=True):
    """How far the figures can be trusted; shares are percentages, 0 to 100.

    Shares of spend and routes are those of priced calls. `routes_used_once` have a single call. Of
    `assumed_input_calls`, if there are any, the source doesn't say whether the input tokens include
    the cached ones. `unknown_fields` are numbers in usage objects that we don't know, so their
    calls may have cost more. `future_calls`, if there are any, are dated more than a day after they
    were sent or, in an audit of an account, after the audit, which leaves them out.
    `reported_costs` compares the costs that sources report, if there are any. `missing_rates` are
    tiers, regions and units without a known rate, of the most calls first. `skipped_rows`, if there
    are any, were no calls to bill.
    """

    priced_tokens_pct: float = 100.0
    equiv_spend_pct: float = 0.0
    untagged_spend_pct: float = 0.0
    hashed_calls_pct: float = 0.0
    routes: int = 0
    routes_used_once: int = 0
    assumed_input_calls: int | UnsetType = UNSET
    future_calls: int | UnsetType = UNSET
    unknown_fields: tuple[UnknownField, ...] | UnsetType = UNSET
    reported_costs: ReportedCosts | UnsetType = UNSET
    missing_rates: tuple[MissingRate, ...] | UnsetType = UNSET
    skipped_rows: tuple[SkippedRows, ...] | UnsetType = UNSET


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
    released with. `aliases` lists the names that are priced as another model. `fingerprint` is a
    digest of the standard tier's rates in the report's period, of its 100 most expensive models and
    its 100 most used ones without a price: another one means that the report would have other
    dollars today. A change of another tier's rates alone is not seen. `excluded` says which of an
    account's prices could not be applied, and why.
    """

    source: str
    version: str
    negotiated: tuple[str, ...] = ()
    as_of: str = ""
    aliases: tuple[str, ...] = ()
    fingerprint: str = ""
    excluded: tuple[str, ...] = ()


class EvidenceColumn(Struct, frozen=True, kw_only=True):
    """One column of a finding's evidence: a field of `Evidence`, its label and its format.

    `limit` is a count of which 0 means that none was set.
    """

    field: str
    label: str
    format: Literal["time", "text", "count", "limit", "seconds", "usd"]


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
    `other_` fields sum the others. `spend_by_day_and_model` has the most expensive models. Calls
    that a plan includes are in `plan_usage`, if there are any, and in no other dollars. Fields with
    a default were added later, so stored documents may lack them.
    """

    audit: AuditSummary
    findings: tuple[Finding, ...]
    spend_by_model: tuple[SpendByModel, ...]
    spend_by_route: tuple[SpendByRoute, ...]
    spend_by_day: tuple[SpendByDay, ...]
    unpriced: tuple[UnpricedModel, ...]
    invalid_rows: InvalidRows
    prices: PriceSource
    thresholds: AssumedThresholds
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
    plan_usage: PlanUsage | UnsetType = UNSET

    def to_json(self) -> bytes:
        """Encode as JSON, with dollars as numbers; the same report gives the same bytes."""
        return _REPORT_ENCODER.encode(self)

    @classmethod
    def from_json(cls, document: bytes) -> Self:
        """Decode what `to_json` wrote; anything else raises `msgspec.ValidationError`."""
        return msgspec.json.decode(document, type=cls)


_REPORT_ENCODER = msgspec.json.Encoder(decimal_format="number")
# While one thread imports: msgspec crashes Python if two threads are the first to decode a type.
msgspec.json.Decoder(Report)
