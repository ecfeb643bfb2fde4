"""What crosses the border between log, library and service: records, thresholds, the report.

Nothing here imports a dataframe library, so that the service can validate and print without one.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from detectors.showing import ShownFinding, ShownReport

MAX_COUNT: Final = 1_000_000_000_000
MAX_LABEL_LENGTH: Final = 200
MAX_LATENCY_MS: Final = 1e9
MAX_BATCH_RECORDS: Final = 5_000
_MAX_THRESHOLD: Final = 1e12
LONGEST_LIST: Final = 1_000  # of a report document's models and routes
PROVIDER_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}\Z"
PREFIX_HASH_PATTERN: Final = r"^[0-9a-fA-F]{64}\Z"
# Control characters (C1 too), and lone surrogates, which have no UTF-8.
LABEL_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z"
FIRST_INSTANT: Final = datetime(2000, 1, 1, tzinfo=UTC)
LAST_INSTANT: Final = datetime(2100, 1, 1, tzinfo=UTC)  # exclusive

# A field name of a stranger's log is repeated in an error only where it looks like a name.
FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Label = Annotated[str, Meta(max_length=MAX_LABEL_LENGTH)]
ModelName = Annotated[str, Meta(min_length=1, max_length=MAX_LABEL_LENGTH)]


class UsageRecord(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """One language-model call as counts, times and labels; never text.

    Field for field the usage record of the API specification, part 2.1. Optional fields may be
    absent or null, which mean the same. `ts` is in UTC. The types hold what a decoder can check
    cheaply; the patterns above and the range of `ts` are checked by `detectors.formats`, column
    by column, because a regular expression per value takes six times as long as decoding.
    """

    ts: datetime
    provider: Label
    model: ModelName
    prompt_tokens: Count
    completion_tokens: Count
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    latency_ms: Annotated[float, Meta(ge=0, le=MAX_LATENCY_MS)] | None = None
    endpoint: Label | None = None
    request_id: Label | None = None
    tag: Label | None = None
    declared_max_tokens: Count | None = None
    prefix_hash: Annotated[str, Meta(min_length=64, max_length=64)] | None = None


RECORD_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(UsageRecord))
REQUIRED_FIELDS: Final = tuple(
    field.name for field in msgspec.structs.fields(UsageRecord) if field.required
)


class Thresholds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every number of the six definitions, each with its default.

    Units stand in the names: `_tokens`, `_seconds`, `_usd` (US dollars a month), `_pct` (0 to 100),
    `_share` and `_quantile` (0 to 1), `_multiple` (a factor), `_calls` (a count).
    """

    # d1_model_overkill
    d1_min_calls: int = 5
    d1_median_completion_tokens: int = 150
    d1_p90_completion_tokens: int = 400
    d1_max_completion_tokens: int = 400
    # d2_missed_caching
    d2_prefix_tokens: int = 1_024
    d2_min_hash_calls: int = 3
    d2_cache_seconds: int = 300
    d2_unhashed_min_calls: int = 20
    d2_unhashed_quantile: float = 0.10
    d2_unhashed_prompt_share: float = 0.5
    # d3_context_bloat
    d3_min_calls: int = 10
    d3_p90_multiple: float = 3.0
    d3_bin_min_calls: int = 30
    d3_bin_min_routes: int = 2
    d3_max_bin_share: float = 0.5
    d3_saving_share: float = 0.5
    # d4_duplicate_calls
    d4_whole_prompt_tokens: int = 800
    d4_same_prompt_share: float = 0.95
    d4_same_shape_min_completion_tokens: int = 20
    d4_same_shape_min_share: float = 0.5
    d4_gap_seconds: float = 30.0
    d4_min_burst_calls: int = 3
    # d5_max_tokens_misfit
    d5_truncated_above_tokens: int = 16
    d5_truncated_min_calls: int = 5
    d5_truncated_min_share: float = 0.02
    d5_truncated_saving_share: float = 0.5
    d5_oversized_min_calls: int = 20
    d5_oversized_multiple: float = 10.0
    d5_oversized_quantile: float = 0.95
    # d6_chatty_loop
    d6_session_gap_seconds: float = 900.0
    d6_min_calls: int = 10
    d6_max_session_seconds: float = 7_200.0
    d6_short_completion_tokens: int = 100
    d6_min_short_share: float = 0.8
    d6_max_median_gap_seconds: float = 60.0
    d6_overlap_gap_seconds: float = 0.25
    d6_max_overlap_share: float = 0.05
    d6_max_zero_gap_share: float = 0.30
    d6_calls_per_request: int = 5
    d6_saving_share: float = 0.5
    d6_min_hash_share: float = 0.5
    # All detectors
    days_per_month: int = 30
    high_severity_usd: float = 500.0
    medium_severity_usd: float = 50.0
    floor_usd: float = 0.01
    evidence_calls: int = 20
    min_valid_pct: float = 50.0
    warn_valid_pct: float = 95.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            lowest, highest = _limits(name)
            value = getattr(self, name)
            kinds = int if name in _WHOLE else int | float
            if isinstance(value, bool) or not (
                isinstance(value, kinds) and lowest <= value <= highest
            ):
                number = "an integer" if name in _WHOLE else "a number"
                raise ValueError(f"{name} must be {number} from {lowest} to {highest:,.0f}")


_WHOLE: Final = frozenset(
    field.name for field in msgspec.structs.fields(Thresholds) if field.type is int
)


def _limits(threshold: str) -> tuple[int, float]:
    """The least and the most that a threshold may be, by the unit in its name."""
    if threshold in ("days_per_month", "d6_calls_per_request"):  # divided by
        return 1, _MAX_THRESHOLD
    if threshold.endswith(("_share", "_quantile")):
        return 0, 1
    return 0, 100 if threshold.endswith("_pct") else _MAX_THRESHOLD


class InvalidRow(Struct, frozen=True):
    """A row of a log that names only allowed fields but holds a bad value.

    `line` counts from 1 as an editor does (in a JSON array, a frame or an iterable it counts the
    objects or rows); `reason` names the field and what was expected.
    """

    line: int
    reason: str


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


class Finding(ShownFinding, Struct, frozen=True, kw_only=True):
    """One line of the report: what one detector found in one (route, provider, model).

    `calls` counts the flagged calls. Dollar fields are US dollars rounded to 9 decimals. `formula`
    shows how they were reckoned; it is empty where no dollars are claimed.
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

    def __repr__(self) -> str:
        """One line, since the evidence would fill a notebook's page."""
        return (
            f"<Finding {self.id} {self.detector} on {self.route!r}, {self.model!r}: "
            f"${self.monthly_cost_impact_usd:,.2f} a month>"
        )


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
    """What all findings of one detector save a month, those under the floor included.

    `alone_usd` is what they would save if nothing else were mended; `composed_usd` is what they
    save of what the detectors before this one leave, so that these add up to the whole.
    """

    detector: str
    alone_usd: Decimal
    composed_usd: Decimal


class Others(Struct, frozen=True, kw_only=True):
    """What a list that is cut short leaves out: how many entries, and their sums."""

    count: int = 0
    calls: int = 0
    spend_usd: Decimal = Decimal(0)


class UnpricedModel(Struct, frozen=True, kw_only=True):
    provider: str
    model: str
    calls: int


class InvalidRows(Struct, frozen=True, kw_only=True):
    """`reasons` counts every invalid row by its reason; `first` lists the first 100 by line."""

    count: int
    reasons: dict[str, int]
    first: tuple[InvalidRow, ...]

    @property
    def main_reason(self) -> str:
        """The reason of most rows, with the first line that it was seen on; "" without rows."""
        if not self.reasons:
            return ""
        reason = min(self.reasons, key=lambda each: (-self.reasons[each], each))
        line = next((row.line for row in self.first if row.reason == reason), None)
        return reason if line is None else f"{reason} (first on line {line:,})"


class PriceSource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose prices the dollars rest on; `negotiated` names the rates that took their place."""

    source: str
    version: str
    negotiated: tuple[str, ...] = ()


class Method(Struct, frozen=True, kw_only=True):
    """How one detector judges, in its own words."""

    detector: str
    title: str
    costs_you: str
    fires_on: str
    stays_quiet_on: str
    do_instead: str
    sources: str


class Report(ShownReport, Struct, frozen=True, kw_only=True):
    """The report document: everything that a page, a PDF or the API prints, and nothing else.

    The lists of models, routes and unpriced models hold the first `LONGEST_LIST` entries, and what
    is left out stands in the `other_` fields. `spend_by_day_and_model` holds the dearest models.
    What has a default was added later: stored documents may lack it.
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

    def __repr__(self) -> str:
        """One line; the whole document is `to_json`'s."""
        return (
            f"<Report on {self.audit.records:,} calls: "
            f"${self.audit.projected_spend_usd:,.2f} a month, "
            f"{self.audit.savings_pct:.1f} % avoidable; findings: {len(self.findings):,}>"
        )

    def to_json(self) -> bytes:
        """The document as JSON, dollars as numbers; the same report gives the same bytes."""
        return _REPORT_ENCODER.encode(self)

    @classmethod
    def from_json(cls, document: bytes) -> "Report":
        """The report that `to_json` wrote; raises `msgspec.ValidationError` for anything else."""
        return msgspec.json.decode(document, type=cls)


_REPORT_ENCODER = msgspec.json.Encoder(decimal_format="number")
