"""The usage record in both versions, and the limits of its fields."""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from detectors.contract.units import MAX_UNITS, UNITS

MAX_COUNT: Final = 1_000_000_000_000
MAX_LABEL_LENGTH: Final = 200
MAX_LATENCY_MS: Final = 1e9
MAX_BATCH_RECORDS: Final = 5_000
MAX_REPORTED_USD: Final = 1e6
# The first so many characters of a prompt that each of `prefix_hashes` is of.
LEVELS: Final = (
    *(4_096, 5_793, 8_192, 11_585, 16_384, 23_170, 32_768, 46_341, 65_536),
    *(92_682, 131_072, 185_364, 262_144),
)
LEVEL_DIGITS: Final = 16
# The levels that hashes of 64 digits are of.
LEVELS_OF_HASHES: Final = {"prefix_hash": 0, "prefix_hash_16k": 4, "prefix_hash_64k": 8}
PROVIDER_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}\Z"
PREFIX_HASH_PATTERN: Final = r"^[0-9a-fA-F]{64}\Z"
# Control characters (C1 too), and lone surrogates, which have no UTF-8.
LABEL_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z"
FIRST_INSTANT: Final = datetime(2000, 1, 1, tzinfo=UTC)
LAST_INSTANT: Final = datetime(2100, 1, 1, tzinfo=UTC)  # exclusive

# A field name of the input is repeated in an error only if it looks like a name.
FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def _kind(name: str, **meta: Any) -> Meta:
    """Return the bounds of a type, and the kind of field that it makes."""
    return Meta(**meta, extra={"kind": name})


def _about(text: str) -> Meta:
    return Meta(description=text)


def _part(text: str, total: str, beside: str = "") -> Meta:
    return Meta(description=text, extra={"total": total, "beside": beside})


Count = Annotated[int, _kind("count", ge=0, le=MAX_COUNT)]
Label = Annotated[str, _kind("label", max_length=MAX_LABEL_LENGTH)]
ModelName = Annotated[str, _kind("model", min_length=1, max_length=MAX_LABEL_LENGTH)]
PrefixHash = Annotated[str, _kind("hash", min_length=64, max_length=64)]
_Instant = Annotated[datetime, _kind("instant")]
_Provider = Annotated[str, _kind("provider", max_length=MAX_LABEL_LENGTH)]
_Latency = Annotated[float, _kind("latency", ge=0, le=MAX_LATENCY_MS)]
_Usd = Annotated[float, _kind("usd", ge=0, le=MAX_REPORTED_USD)]
_Level = Annotated[str, Meta(min_length=LEVEL_DIGITS, max_length=LEVEL_DIGITS)]
_PrefixHashes = Annotated[list[_Level], _kind("hashes", min_length=1, max_length=len(LEVELS))]
_Amount = Annotated[int, Meta(ge=0, le=MAX_COUNT)] | Annotated[float, Meta(ge=0, le=MAX_COUNT)]
if TYPE_CHECKING:
    _Unit = str
else:
    _Unit = Literal[UNITS]
_Units = Annotated[dict[_Unit, _Amount], _kind("units", max_length=MAX_UNITS)]
_Mark = Annotated[Literal[1], _kind("mark")]
_ServiceTier = Literal["standard", "batch", "flex", "priority", "fast"]
_Status = Literal["ok", "error", "cancelled"]
_Billing = Literal["metered", "included"]
_16K: Final = "SHA-256 hex digest of the prompt's first 16,384 characters."
_64K: Final = "SHA-256 hex digest of the prompt's first 65,536 characters."


class UsageRecord(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """One language-model call as counts, times and labels; never text.

    Field for field the usage record of the API specification, part 2.1. Optional fields may be
    absent or null, which mean the same. `ts` is in UTC. The types express what a decoder can
    check cheaply. `detectors.formats` checks the patterns above and the range of `ts` column by
    column, because a regular expression per value takes six times as long as decoding.

    What is written here of a field is all that defines it: module `fields` reads its kind and
    meaning, and columns, checks, forms, schemas and documents follow from them.
    """

    ts: Annotated[_Instant, _about("ISO 8601 time from 2000 to 2100; UTC if it has no offset.")]
    provider: Annotated[
        _Provider, _about("`openai`, `anthropic`, or any lowercase label used for pricing.")
    ]
    model: Annotated[ModelName, _about("The model ID as billed.")]
    prompt_tokens: Annotated[Count, _about("Total input tokens, including cached tokens.")]
    completion_tokens: Annotated[Count, _about("Output tokens.")]
    cached_tokens: Annotated[Count | None, _about("Input tokens read from the cache.")] = None
    cache_write_tokens: Annotated[Count | None, _about("Cache-creation input tokens.")] = None
    latency_ms: Annotated[_Latency | None, _about("Round-trip latency in milliseconds.")] = None
    endpoint: Annotated[Label | None, _about("Your label for the endpoint that made the call.")] = (
        None
    )
    request_id: Annotated[Label | None, _about("Your correlation ID.")] = None
    tag: Annotated[
        Label | None, _about("Your label, for example a service, team or agent session.")
    ] = None
    declared_max_tokens: Annotated[Count | None, _about("The `max_tokens` of the request.")] = None
    prefix_hash: Annotated[
        PrefixHash | None, _about("SHA-256 hex digest of the prompt's first 4,096 characters.")
    ] = None


class UsageRecordV2(
    UsageRecord, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """A usage record with the optional fields of `POST /api/v2/ingest`.

    A first version's record is a second version's record without them. `PARTS` are counts that a
    total already includes.
    """

    service_tier: Annotated[_ServiceTier | None, _about("The tier the call was billed at.")] = None
    cache_write_1h_tokens: Annotated[
        Count | None,
        _part("The part of `cache_write_tokens` kept for one hour.", "cache_write_tokens"),
    ] = None
    reasoning_tokens: Annotated[
        Count | None,
        _part("The part of `completion_tokens` spent on reasoning.", "completion_tokens"),
    ] = None
    audio_prompt_tokens: Annotated[
        Count | None, _part("The part of `prompt_tokens` that is audio.", "prompt_tokens")
    ] = None
    audio_completion_tokens: Annotated[
        Count | None, _part("The part of `completion_tokens` that is audio.", "completion_tokens")
    ] = None
    image_prompt_tokens: Annotated[
        Count | None,
        _part(
            "The part of `prompt_tokens` that is images.", "prompt_tokens", "audio_prompt_tokens"
        ),
    ] = None
    image_completion_tokens: Annotated[
        Count | None,
        _part(
            "The part of `completion_tokens` that is images.",
            "completion_tokens",
            "audio_completion_tokens",
        ),
    ] = None
    web_searches: Annotated[
        Count | None, _about("Web searches that were billed with the call.")
    ] = None
    prefix_hash_16k: Annotated[PrefixHash | None, _about(_16K)] = None
    prefix_hash_64k: Annotated[PrefixHash | None, _about(_64K)] = None
    environment: Annotated[
        Label | None, _about("Your label for the environment, for example `production`.")
    ] = None
    session_id: Annotated[Label | None, _about("Your ID for the session or conversation.")] = None
    status: Annotated[
        _Status | None, _about("How the call ended; counts of a canceled stream are lower bounds.")
    ] = None
    region: Annotated[
        Label | None,
        _about("The region that processed the call, if its price depends on that."),
    ] = None
    units: Annotated[
        _Units | None,
        _about(
            "What else was billed, by the price book's names of units; seconds may have decimals."
        ),
    ] = None
    reported_usd: Annotated[
        _Usd | None,
        _about("The call's cost in US dollars, as its source says; compared, never summed."),
    ] = None
    prefix_hashes: Annotated[
        _PrefixHashes | None,
        _about(
            "The first 16 lowercase hex digits of the SHA-256 digests of the prompt's first 4,096,"
            " 5,793, 8,192, … characters, as far as the prompt reaches."
        ),
    ] = None
    billing: Annotated[
        _Billing | None,
        _about("Whether the call is on an invoice, or included in a plan."),
    ] = None


class StoredRecord(
    UsageRecordV2,
    frozen=True,
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,
):
    """A usage record as it is stored, with what we know of its source.

    `input_assumed` is 1 if the source has cached tokens and doesn't say whether its input tokens
    include them. `unknown_fields` are names of numbers in its usage that we don't know, separated
    by spaces, and `unknown_largest` is the largest of these.
    """

    input_assumed: _Mark | None = None
    unknown_fields: Label | None = None
    unknown_largest: Count | None = None


class InvalidRow(Struct, frozen=True):
    """A row of a log with allowed fields only, but a bad value.

    `line` counts from 1 as in an editor (in a JSON array, a frame or an iterable it counts objects
    or rows); `reason` names the field and describes a valid value.
    """

    line: int
    reason: str
