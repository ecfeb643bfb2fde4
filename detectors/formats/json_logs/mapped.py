"""Reads JSON of any tool whose members are mapped to the record's fields, by dotted paths.

`message.usage.input` is the member `input` of `usage` of `message`, also where one of them is JSON
as text. Paths are found in any case, as the columns of a CSV are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from detectors.contract import FIELD_NAME, InvalidRow, UsageRecord
from detectors.errors import ColumnMappingError, ContractError, MalformedJSONError, TooComplexError
from detectors.formats.adapters.adapter import is_harmless
from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.adapters.reading import Numbered
from detectors.formats.adapters.rows import parsed
from detectors.formats.chunks import Chunk
from detectors.formats.columns import TABLE_FIELDS, columns_of
from detectors.formats.csv_logs.mapping import ColumnMapping
from detectors.formats.csv_logs.names import UNCACHED
from detectors.formats.csv_logs.table import sum_counts, typed
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.problems import describe, shown_name

_DEEPEST: Final = 8
_MAX_NAMES: Final = 5
_COUNTS: Final = ("prompt_tokens", "completion_tokens")


def read_mapped(
    batches: Iterable[list[Numbered]], mapping: ColumnMapping, *, ignores_others: bool = False
) -> Iterator[Chunk]:
    """Yield the chunks of objects whose members are mapped.

    Raises
    ------
    ContractError
        A member that may hold text is neither mapped nor dropped, unless others are ignored.
    ColumnMappingError
        A mapped member is in no object.
    """
    reader = _Reader(mapping, ignores_others=ignores_others)
    for batch in batches:
        yield reader.read(batch)
    reader.check_found()


def members_of(
    document: Mapping[str, Any], path: str = "", depth: int = 0
) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object that are no objects themselves, by their dotted paths."""
    for name, value in document.items():
        below = f"{path}.{name}" if path else name
        inner = parsed(value) if depth < _DEEPEST else value
        if isinstance(inner, dict) and depth < _DEEPEST:
            yield from members_of(inner, below, depth + 1)
        else:
            yield below, value


class _Reader:
    def __init__(self, mapping: ColumnMapping, *, ignores_others: bool) -> None:
        self._fields = mapping.fields()
        # A member with the name of a field is that field, if no other member is mapped to it.
        self._own = frozenset(TABLE_FIELDS) - frozenset(self._fields.values())
        self._missing = {name for name, field in self._fields.items() if field}
        self._provider = mapping.provider
        self._ignores_others = ignores_others

    def read(self, batch: Iterable[Numbered]) -> Chunk:
        records: list[UsageRecord] = []
        invalid: list[InvalidRow] = []
        for number, value in batch:
            if isinstance(value, bytes) and not value.strip():
                continue
            found = self._read(value, number)
            if isinstance(found, UsageRecord):
                records.append(found)
            else:
                invalid.append(InvalidRow(number, found))
        untimed = sum("missing field ts" in row.reason for row in invalid)
        return Chunk(columns_of(records), invalid, untimed)

    def check_found(self) -> None:
        if self._missing:
            shown = shown_name(min(self._missing).rpartition(".")[2], "of one name in the mapping")
            raise ColumnMappingError(f"No object has a member {shown}: map members that exist.")

    def _read(self, value: bytes | dict[str, Any], number: int) -> UsageRecord | str:
        try:
            document = decode_document(value) if isinstance(value, bytes) else value
        except TooComplexError:
            return "too large"
        except MalformedJSONError:
            return reason_of(value) if isinstance(value, bytes) else "not JSON"
        if not isinstance(document, dict):
            return "not a JSON object"
        values = dict(self._values_of(document, number))
        if not any(name in values for name in (*_COUNTS, UNCACHED)):
            return NO_USAGE
        if UNCACHED in values:
            values["prompt_tokens"] = values.pop(UNCACHED)
            values["prompt_tokens"] = sum_counts(values)
        record = read_record(values, LOG_RECORD)
        return record if isinstance(record, UsageRecord) else describe(record)

    def _values_of(self, document: dict[str, Any], number: int) -> Iterator[tuple[str, Any]]:
        if self._provider:
            yield "provider", self._provider
        others: list[str] = []
        for path, value in members_of(document):
            field = self._field_of(path.lower())
            if field:
                self._missing.discard(path.lower())
                if value is not None and value != "":
                    name = "prompt_tokens" if field == UNCACHED else field
                    yield field, typed(name, value)
            elif field is None and not is_harmless(value):
                others.append(path)
        if others and not self._ignores_others:
            named = [
                path if _is_path(path) else "a key that is not a field name" for path in others
            ]
            shown = ", ".join(dict.fromkeys(named[:_MAX_NAMES]))
            raise ContractError(
                f"Members that may hold text are neither mapped nor dropped ({shown}) on object "
                f"{number}: map or drop each, or use `tallystick scrub`, which ignores them.",
                (f"object {number}: {shown}",),
            )

    def _field_of(self, path: str) -> str | None:
        """Return the field of a member, "" if it or an object around it is dropped, or None."""
        if path in self._fields:
            return self._fields[path]
        if path in self._own:
            return path
        while "." in path:
            path = path.rpartition(".")[0]
            if self._fields.get(path) == "":
                return ""
        return None


def _is_path(path: str) -> bool:
    return all(FIELD_NAME.fullmatch(part) for part in path.split("."))
