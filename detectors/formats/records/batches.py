"""The ingest body, `{"records": [...]}`: accepted or rejected as a whole.

The typed decoder reads a good batch in a millisecond or two but stops at the first error. A batch
that it rejects is read again without types, to accept unusual notations or to list every error.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import asdict

from detectors.contract import (
    FIRST_INSTANT,
    LAST_INSTANT,
    LEVELS_OF_HASHES,
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    MAX_BATCH_V2_BYTES,
    PARTS,
    UsageRecord,
    UsageRecordV2,
)
from detectors.errors import ContractError, TooComplexError, TooManyRecordsError
from detectors.formats.checks import (
    are_levels,
    are_prefix_hashes,
    has_control_characters,
    have_excess,
    is_other,
    is_provider,
)
from detectors.formats.columns import OPTIONAL_HASHES, OPTIONAL_LABELS
from detectors.formats.fields import RECORD, RECORD_V2, Field, read_record
from detectors.formats.json_logs.documents import (
    LONG_BYTES,
    MAX_VALUES,
    check_syntax,
    count_values,
    decode_document,
    decode_long_object,
    has_long_key,
)
from detectors.formats.json_logs.lines import can_hold_control_characters
from detectors.formats.moments import to_utc
from detectors.formats.problems import Offenders, Problem, contract_error, shown_name
from detectors.formats.text.splitting import find_elements


class _Batch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    records: list[UsageRecord]


class _BatchV2(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    records: list[UsageRecordV2]


class Version(msgspec.Struct, frozen=True):
    """A version of the record: the decoder of its batches, its fields, its longest batch."""

    decoder: msgspec.json.Decoder[_Batch] | msgspec.json.Decoder[_BatchV2]
    fields: Mapping[str, Field]
    max_bytes: int


V1: Final = Version(msgspec.json.Decoder(_Batch), RECORD, MAX_BATCH_BYTES)
V2: Final = Version(msgspec.json.Decoder(_BatchV2), RECORD_V2, MAX_BATCH_V2_BYTES)


class _Document(msgspec.Struct, gc=False):
    """A body of which only the text of the records is kept."""

    records: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _StrictDocument(_Document, forbid_unknown_fields=True, gc=False):
    """A body without other keys."""


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_STRICT_DOCUMENT: Final = msgspec.json.Decoder(_StrictDocument)
_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MAX_COUNTED: Final = 100_000
# Larger than all but the strangest batches. Typed records take four times their bytes in memory.
_TYPED_BYTES: Final = 8 << 20
_TOO_COMPLEX: Final = Problem("unknown", f"more than {MAX_VALUES:,} values")
_SHAPE: Final = (
    'The body must be an object with a single key, "records", that contains a non-empty array.'
)


def decode_batch(body: bytes | memoryview, version: Version = V1) -> Sequence[UsageRecord]:
    """Return the batch's records of this version, with times in UTC.

    Of a body longer than `_TYPED_BYTES`, nothing is copied but one record at a time. Raises
    `MalformedJSONError`, `TooManyRecordsError` without checking their content, or `ContractError`,
    which names the records and fields.
    """
    if len(body) > _TYPED_BYTES:
        return _decode_untyped(memoryview(body), version)
    body = bytes(body)
    try:
        records: Sequence[UsageRecord] = version.decoder.decode(body).records
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_untyped(memoryview(body), version)
    if len(records) > MAX_BATCH_RECORDS:
        raise TooManyRecordsError(len(records), MAX_BATCH_RECORDS)
    if records and _are_clean(records, body):
        return records
    return _decode_untyped(memoryview(body), version)


def _are_clean(records: Sequence[UsageRecord], body: bytes) -> bool:
    """Convert times to UTC, and check the rules that types cannot express."""
    try:
        bring_to_utc(records)
    except ValueError:
        return False
    if not all(map(is_provider, {record.provider for record in records})):
        return False
    hashes = [record.prefix_hash for record in records if record.prefix_hash is not None]
    if not are_prefix_hashes(hashes):
        return False
    if can_hold_control_characters(body) and has_control_characters(
        text
        for record in records
        for text in (
            *(record.model, record.endpoint, record.request_id, record.tag),
            *(getattr(record, name, None) for name in OPTIONAL_LABELS),
        )
        if text is not None
    ):
        return False
    # A faster test than `isinstance`, of records that a decoder of their own type has made.
    detailed = [record for record in records if type(record) is UsageRecordV2]
    for field in OPTIONAL_HASHES:
        hashes = [getattr(record, field) for record in detailed]
        if not are_prefix_hashes([text for text in hashes if text is not None]):
            return False
    if any(have_excess(detailed, part) for part in PARTS):
        return False
    hashed = [each for each in detailed if each.prefix_hashes]
    # Joined twice: a part for each record is faster than one for each level.
    if not are_levels(["".join(each.prefix_hashes or ()) for each in hashed]):
        return False
    for field, level in LEVELS_OF_HASHES.items():
        for each in hashed if any(map(attrgetter(field), hashed)) else ():
            levels = each.prefix_hashes or []
            if len(levels) > level and is_other(getattr(each, field), levels[level]):
                return False
    few = [each for each in detailed if each.units is not None]
    return all(isinstance(read_record(asdict(each), RECORD_V2), UsageRecordV2) for each in few)


def bring_to_utc(records: Sequence[UsageRecord]) -> None:
    """Convert all times to UTC in place; nothing else refers to these records yet."""
    instants = [record.ts for record in records]
    if {instant.tzinfo for instant in instants} == {UTC}:
        if min(instants) < FIRST_INSTANT or max(instants) >= LAST_INSTANT:
            raise ValueError
        return
    for record, instant in zip(records, instants, strict=True):
        msgspec.structs.force_setattr(record, "ts", to_utc(instant))


def _decode_untyped(body: memoryview, version: Version) -> list[UsageRecord]:
    """Decode the records one by one, so that memory depends on the largest record only."""
    records: list[UsageRecord] = []
    offenders = Offenders()
    check_syntax(body)
    try:
        found = _DOCUMENT.decode(body).records
    except msgspec.ValidationError:
        raise ContractError(_SHAPE) from None
    raw = memoryview(b"" if found is msgspec.UNSET else found)
    count = 0
    if bytes(raw[:1]) == b"[":
        count = sum(1 for _ in islice(find_elements(raw), _MAX_COUNTED))
        if count > MAX_BATCH_RECORDS:
            raise TooManyRecordsError(count, MAX_BATCH_RECORDS, is_exact=count < _MAX_COUNTED)
    _check_keys(body, raw)
    if not count:
        raise ContractError(_SHAPE)
    for index, text in enumerate(raw[start:end] for start, end in find_elements(raw)):
        decode = decode_long_object if len(text) > LONG_BYTES else decode_document
        record: UsageRecord | list[Problem]
        try:
            record = _read_batch_record(decode(text), version.fields)
        except TooComplexError:
            record = [_TOO_COMPLEX]
        if isinstance(record, UsageRecord):
            records.append(record)
            continue
        for problem in record:
            offenders.add(f"record {index}", problem)
    if offenders.named:
        raise contract_error(offenders)
    return records


def _check_keys(body: memoryview, raw: memoryview) -> None:
    # The decoder would repeat a long key in its error, in four times its bytes.
    is_long = len(body) - len(raw) > LONG_BYTES and has_long_key(body)
    with suppress(msgspec.ValidationError):
        if not is_long:
            _STRICT_DOCUMENT.decode(body)
            return
    offenders = Offenders()
    if is_long or count_values(body) - count_values(raw) > MAX_VALUES:
        offenders.add("body", _TOO_COMPLEX)
    else:
        for key in _KEYS.decode(body):
            if key != "records":
                offenders.add("body", Problem("unknown", shown_name(key)))
    error = contract_error(offenders)
    raise ContractError(f"{error} {_SHAPE}", error.offenders)


def _read_batch_record(values: object, fields: Mapping[str, Field]) -> UsageRecord | list[Problem]:
    if not isinstance(values, dict):
        return [Problem("bad", "the record", "an object")]
    unknown_fields = [Problem("unknown", shown_name(key)) for key in values if key not in fields]
    if not unknown_fields:
        return read_record(values, fields)
    # List every error at once, unknown fields first.
    record = read_record({key: values[key] for key in fields if key in values}, fields)
    return unknown_fields + (record if isinstance(record, list) else [])
