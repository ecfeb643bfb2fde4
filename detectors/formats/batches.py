"""The ingest body, `{"records": [...]}`: accepted or rejected as a whole.

The typed decoder reads a good batch in a millisecond or two but stops at the first error. A batch
that it rejects is read again without types, to accept unusual notations or to list every error.
"""

from datetime import UTC
from typing import Final, Never

import msgspec

from detectors.contract import (
    FIRST_INSTANT,
    LAST_INSTANT,
    MAX_BATCH_RECORDS,
    RECORD_FIELDS,
    UsageRecord,
)
from detectors.errors import ContractError, TooManyRecordsError
from detectors.formats.checks import are_prefix_hashes, has_control_characters, is_provider
from detectors.formats.fields import read_record, to_utc
from detectors.formats.json_logs.documents import decode_document
from detectors.formats.json_logs.lines import can_hold_control_characters
from detectors.formats.problems import Offender, Problem, contract_error, shown_name


class _Batch(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    records: list[UsageRecord]


_DECODER: Final = msgspec.json.Decoder(_Batch)
_SHAPE: Final = (
    'The body must be an object with a single key, "records", that contains a non-empty array.'
)


def decode_batch(body: bytes) -> list[UsageRecord]:
    """Return the batch's records, with times in UTC.

    Raises
    ------
    MalformedJSONError
        The body is not JSON.
    TooManyRecordsError
        More records than a batch may have; their content is not checked.
    ContractError
        JSON that breaks the contract; names the records and fields.
    """
    try:
        records = _DECODER.decode(body).records
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_untyped(body)
    if len(records) > MAX_BATCH_RECORDS:
        raise TooManyRecordsError(len(records), MAX_BATCH_RECORDS)
    if records and _are_clean(records, body):
        return records
    return _decode_untyped(body)


def _are_clean(records: list[UsageRecord], body: bytes) -> bool:
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
    return not (can_hold_control_characters(body) and _have_control_characters(records))


def bring_to_utc(records: list[UsageRecord]) -> None:
    """Convert all times to UTC in place; nothing else refers to these records yet."""
    instants = [record.ts for record in records]
    if {instant.tzinfo for instant in instants} == {UTC}:
        if min(instants) < FIRST_INSTANT or max(instants) >= LAST_INSTANT:
            raise ValueError
        return
    for record, instant in zip(records, instants, strict=True):
        msgspec.structs.force_setattr(record, "ts", to_utc(instant))


def _have_control_characters(records: list[UsageRecord]) -> bool:
    return has_control_characters(
        text
        for record in records
        for text in (record.model, record.endpoint, record.request_id, record.tag)
        if text is not None
    )


def _decode_untyped(body: bytes) -> list[UsageRecord]:
    listed = _get_records(decode_document(body))
    records: list[UsageRecord] = []
    offenders: list[Offender] = []
    for index, values in enumerate(listed):
        record = _read_batch_record(values)
        if isinstance(record, UsageRecord):
            records.append(record)
        else:
            offenders += [Offender(f"record {index}", problem) for problem in record]
    if offenders:
        raise contract_error(offenders)
    return records


def _get_records(document: object) -> list[object]:
    if not isinstance(document, dict):
        raise ContractError(_SHAPE)
    records = document.get("records")
    if isinstance(records, list) and len(records) > MAX_BATCH_RECORDS:
        raise TooManyRecordsError(len(records), MAX_BATCH_RECORDS)
    unknown_keys = [key for key in document if key != "records"]
    if unknown_keys:
        _reject_keys(unknown_keys)
    if not isinstance(records, list) or not records:
        raise ContractError(_SHAPE)
    return records


def _reject_keys(keys: list[object]) -> Never:
    error = contract_error([Offender("body", Problem("unknown", shown_name(key))) for key in keys])
    raise ContractError(f"{error} {_SHAPE}", error.offenders)


def _read_batch_record(values: object) -> UsageRecord | list[Problem]:
    if not isinstance(values, dict):
        return [Problem("bad", "the record", "an object")]
    unknown_fields = [
        Problem("unknown", shown_name(key)) for key in values if key not in RECORD_FIELDS
    ]
    if not unknown_fields:
        return read_record(values)
    # List every error at once, unknown fields first.
    record = read_record({key: values[key] for key in RECORD_FIELDS if key in values})
    return unknown_fields + (record if isinstance(record, list) else [])
