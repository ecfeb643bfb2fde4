"""The usage record in both versions, and the limits of its fields."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

MAX_COUNT: Final = 1_000_000_000_000
MAX_LABEL_LENGTH: Final = 200
MAX_LATENCY_MS: Final = 1e9
MAX_BATCH_RECORDS: Final = 5_000
PROVIDER_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}\Z"
PREFIX_HASH_PATTERN: Final = r"^[0-9a-fA-F]{64}\Z"
# Control characters (C1 too), and lone surrogates, which have no UTF-8.
LABEL_PATTERN: Final = r"^[^\x00-\x1f\x7f-\x9f\ud800-\udfff]*\Z"
FIRST_INSTANT: Final = datetime(2000, 1, 1, tzinfo=UTC)
LAST_INSTANT: Final = datetime(2100, 1, 1, tzinfo=UTC)  # exclusive

# A field name of the input is repeated in an error only if it looks like a name.
FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
Label = Annotated[str, Meta(max_length=MAX_LABEL_LENGTH)]
ModelName = Annotated[str, Meta(min_length=1, max_length=MAX_LABEL_LENGTH)]
PrefixHash = Annotated[str, Meta(min_length=64, max_length=64)]


class UsageRecord(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """One language-model call as counts, times and labels; never text.

    Field for field the usage record of the API specification, part 2.1. Optional fields may be
    absent or null, which mean the same. `ts` is in UTC. The types express what a decoder can
    check cheaply. `detectors.formats` checks the patterns above and the range of `ts` column by
    column, because a regular expression per value takes six times as long as decoding.
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
    prefix_hash: PrefixHash | None = None


class UsageRecordV2(
    UsageRecord, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, gc=False
):
    """A usage record with the optional fields of `POST /api/v2/ingest`.

    A first version's record is a second version's record without them. `PARTS` are counts that a
    total already includes.
    """

    service_tier: Literal["standard", "batch", "flex", "priority", "fast"] | None = None
    cache_write_1h_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    audio_prompt_tokens: Count | None = None
    audio_completion_tokens: Count | None = None
    image_prompt_tokens: Count | None = None
    image_completion_tokens: Count | None = None
    web_searches: Count | None = None
    prefix_hash_16k: PrefixHash | None = None
    prefix_hash_64k: PrefixHash | None = None
    environment: Label | None = None
    session_id: Label | None = None
    status: Literal["ok", "error", "cancelled"] | None = None
    region: Label | None = None


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
    include them.
    """

    input_assumed: Literal[1] | None = None


RECORD_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(UsageRecord))
RECORD_V2_FIELDS: Final = tuple(field.name for field in msgspec.structs.fields(UsageRecordV2))
# Encoders escape a character of 4 bytes in UTF-8 as two of UTF-16: `\\ud83d\\ude00`.
_LABEL_BYTES: Final = 12 * MAX_LABEL_LENGTH
_OTHER_BYTES: Final = 70  # of a number, a time, a provider or a hash, and of what is around it


def _max_bytes(record: type[UsageRecord]) -> int:
    """Return the bytes of a batch of the longest records, as encoders write JSON."""
    fields = msgspec.structs.fields(record)
    labels = [each for each in fields if each.type in (Label, Label | None, ModelName)]
    labels = [each for each in labels if each.name != "provider"]
    rest = sum(len(each.name) + _OTHER_BYTES for each in fields)
    return MAX_BATCH_RECORDS * (len(labels) * _LABEL_BYTES + rest)


MAX_BATCH_BYTES: Final = _max_bytes(UsageRecord)
MAX_BATCH_V2_BYTES: Final = _max_bytes(UsageRecordV2)
STATUSES: Final = ("ok", "error", "cancelled")


class Part(NamedTuple):
    """A count that `total` includes, besides the count `beside`."""

    name: str
    total: str
    beside: str = ""

    @property
    def expected(self) -> str:
        """Return the description of a valid value."""
        return f"at most {self.total}{f' less {self.beside}' if self.beside else ''}"


PARTS: Final = (
    Part("cache_write_1h_tokens", "cache_write_tokens"),
    Part("reasoning_tokens", "completion_tokens"),
    Part("audio_prompt_tokens", "prompt_tokens"),
    Part("image_prompt_tokens", "prompt_tokens", "audio_prompt_tokens"),
    Part("audio_completion_tokens", "completion_tokens"),
    Part("image_completion_tokens", "completion_tokens", "audio_completion_tokens"),
)
REQUIRED_FIELDS: Final = tuple(
    field.name for field in msgspec.structs.fields(UsageRecord) if field.required
)


class InvalidRow(Struct, frozen=True):
    """A row of a log with allowed fields only, but a bad value.

    `line` counts from 1 as in an editor (in a JSON array, a frame or an iterable it counts objects
    or rows); `reason` names the field and describes a valid value.
    """

    line: int
    reason: str
