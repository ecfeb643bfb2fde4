"""The record's fields by kind, read from its structs: whatever has a field follows from these.

A field that is added to a struct is a column of frames and of CSV, a member of the stored form, of
the API's schema and of its documents without another change.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from detectors.contract.record import (
    MAX_BATCH_RECORDS,
    MAX_LABEL_LENGTH,
    StoredRecord,
    UsageRecord,
    UsageRecordV2,
)

# Encoders escape a character of 4 bytes in UTF-8 as two of UTF-16: `\\ud83d\\ude00`.
_LABEL_BYTES: Final = 12 * MAX_LABEL_LENGTH
_OTHER_BYTES: Final = 70  # of a number, a time, a provider or a hash, and of what is around it
# Of the most units with their longest names, and of a hash of each level.
_LONGER: Final = {"units": 900, "hashes": 260}


class Part(NamedTuple):
    """A count that `total` includes, besides the count `beside`."""

    name: str
    total: str
    beside: str = ""

    @property
    def expected(self) -> str:
        return f"at most {self.total}{f' less {self.beside}' if self.beside else ''}"


class RecordField(NamedTuple):
    """A field of the record: its kind, its meaning, and the total that it is part of, if any.

    `kind` is the name of its type in `record`, or `choice` of the words in `choices`.
    """

    name: str
    kind: str
    text: str
    is_required: bool
    type: Any
    choices: tuple[str, ...] = ()
    part: Part | None = None


def _read(record: type[UsageRecord]) -> tuple[RecordField, ...]:
    found = []
    for field in msgspec.structs.fields(record):
        metas = list(_find_metas(field.type))
        said: dict[str, str] = {}
        for meta in metas:
            said |= meta.extra or {}
        text = next((meta.description for meta in metas if meta.description), "")
        choices = _find_choices(field.type) if "kind" not in said else ()
        part = Part(field.name, said["total"], said["beside"]) if "total" in said else None
        kind = said.get("kind", "choice")
        found.append(RecordField(field.name, kind, text, field.required, field.type, choices, part))
    return tuple(found)


def _find_metas(annotation: Any) -> Iterator[Meta]:
    if get_origin(annotation) is Annotated:
        yield from (each for each in annotation.__metadata__ if isinstance(each, Meta))
    for inner in get_args(annotation):
        yield from _find_metas(inner)


def _find_choices(annotation: Any) -> tuple[str, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(_find_choices, get_args(annotation))), ())


V1_FIELDS: Final = _read(UsageRecord)
V2_FIELDS: Final = _read(UsageRecordV2)
STORED_FIELDS: Final = _read(StoredRecord)
RECORD_FIELDS: Final = tuple(field.name for field in V1_FIELDS)
RECORD_V2_FIELDS: Final = tuple(field.name for field in V2_FIELDS)
REQUIRED_FIELDS: Final = tuple(field.name for field in V1_FIELDS if field.is_required)
PARTS: Final = tuple(field.part for field in V2_FIELDS if field.part)
STATUSES: Final = next(field.choices for field in V2_FIELDS if field.name == "status")


def names_of(fields: tuple[RecordField, ...], *kinds: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields if field.kind in kinds)


def _max_bytes(fields: tuple[RecordField, ...]) -> int:
    """Return the bytes of a batch of the longest records, as encoders write JSON."""
    labels = len(names_of(fields, "label", "model"))
    rest = sum(len(field.name) + _LONGER.get(field.kind, _OTHER_BYTES) for field in fields)
    return MAX_BATCH_RECORDS * (labels * _LABEL_BYTES + rest)


MAX_BATCH_BYTES: Final = _max_bytes(V1_FIELDS)
MAX_BATCH_V2_BYTES: Final = _max_bytes(V2_FIELDS)
