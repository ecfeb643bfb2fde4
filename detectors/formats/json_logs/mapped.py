"""Reads JSON of any tool whose members are mapped to the record's fields, by dotted paths.

`message.usage.input` is the member `input` of `usage` of `message`, also where one of them is JSON
as text, such as a cell of a CSV. Paths are found in any case, as the columns of a CSV are.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from detectors.contract import FIELD_NAME, UNITS, UsageRecord
from detectors.errors import (
    ColumnMappingError,
    ContractError,
    DetectorError,
    MalformedJSONError,
    TooComplexError,
)
from detectors.formats.adapters.adapter import is_harmless
from detectors.formats.adapters.calls import NO_USAGE
from detectors.formats.adapters.labels import provider_of
from detectors.formats.adapters.reading import NumberedItem
from detectors.formats.adapters.rows import parsed
from detectors.formats.chunks import Chunk, ChunkParts
from detectors.formats.columns import TABLE_FIELDS, columns_of
from detectors.formats.csv_logs.mapping import POSITION, ColumnMapping
from detectors.formats.csv_logs.names import BY_MODEL, UNCACHED
from detectors.formats.csv_logs.rows import CsvText
from detectors.formats.csv_logs.table import sum_counts, typed
from detectors.formats.fields import LOG_RECORD, read_record
from detectors.formats.json_logs.documents import decode_document, reason_of
from detectors.formats.problems import Problem, shown_name

_DEEPEST: Final = 8
_MAX_NAMES: Final = 5
_COUNTS: Final = ("prompt_tokens", "completion_tokens")


def read_mapped(
    batches: Iterable[list[NumberedItem]], mapping: ColumnMapping, *, ignores_others: bool = False
) -> Iterator[Chunk]:
    """Yield the chunks of objects whose members are mapped.

    A member that may hold text and is neither mapped nor dropped raises `ContractError`, unless
    others are ignored; a mapped member that is in no object, `ColumnMappingError`.
    """
    reader = _Reader(mapping, ignores_others=ignores_others)
    for batch in batches:
        yield reader.read(batch)
    reader.check_found()


def read_mapped_cells(
    pieces: Iterator[bytes], delimiter: str, mapping: ColumnMapping, *, ignores_others: bool = False
) -> Iterator[Chunk]:
    """Yield the chunks of CSV text of which members within cells are mapped, as `read_mapped` does.

    The text comes in pieces of whole lines.
    """
    text = CsvText(pieces, delimiter)
    cells = [cell.strip().lower() for cell in text.first()]
    keys, width = mapping.keys(cells), len(cells)
    reader = _Reader(mapping, ignores_others=ignores_others, delimiter=delimiter)
    try:
        for batch in chain(text.rest(), chain.from_iterable(map(text.read, text.pieces()))):
            # A row with too many or too few cells is no object.
            yield reader.read(
                NumberedItem(
                    line, dict(zip(keys, row, strict=True)) if len(row) == width else b"null"
                )
                for line, row in zip(*batch, strict=True)
            )
        reader.check_found()
    except DetectorError as error:
        error.columns = tuple(cells)
        raise


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
    def __init__(
        self, mapping: ColumnMapping, *, ignores_others: bool, delimiter: str = ""
    ) -> None:
        self._delimiter = delimiter  # of a CSV
        self._fields = mapping.fields()
        # A member with the name of a field is that field, if no other member is mapped to it.
        self._own = frozenset(TABLE_FIELDS) - frozenset(self._fields.values())
        self._missing = {name for name, field in self._fields.items() if field}
        self._provider = mapping.provider
        self._ignores_others = ignores_others

    def read(self, batch: Iterable[NumberedItem]) -> Chunk:
        records: list[UsageRecord] = []
        parts = ChunkParts()
        for number, value in batch:
            if isinstance(value, bytes) and not value.strip():
                continue
            found = self._read(value, number)
            if isinstance(found, UsageRecord):
                records.append(found)
            else:
                parts.reject(number, found)
        return Chunk(columns_of(records), parts.invalid, parts.untimed)

    def check_found(self) -> None:
        if self._missing:
            shown = shown_name(min(self._missing).rpartition(".")[2], "of one name in the mapping")
            raise ColumnMappingError(f"No object has a member {shown}: map members that exist.")

    def _read(
        self, value: bytes | dict[str, Any], number: int
    ) -> UsageRecord | str | list[Problem]:
        try:
            document = decode_document(value) if isinstance(value, bytes) else value
        except TooComplexError:
            return "too large"
        except MalformedJSONError:
            return reason_of(value) if isinstance(value, bytes) else "not JSON"
        if not isinstance(document, dict):
            return "another number of cells" if self._delimiter else "not a JSON object"
        values = dict(self._values_of(document, number))
        if units := {name: values.pop(name) for name in UNITS if name in values}:
            values["units"] = units
        if not any(name in values for name in (*_COUNTS, UNCACHED)):
            return NO_USAGE
        if self._provider == BY_MODEL:
            values["provider"] = provider_of(str(values.get("model", "")))
        if UNCACHED in values:
            values["prompt_tokens"] = values.pop(UNCACHED)
            values["prompt_tokens"] = sum_counts(values)
        return read_record(values, LOG_RECORD)

    def _values_of(self, document: dict[str, Any], number: int) -> Iterator[tuple[str, Any]]:
        others: list[str] = []
        for path, value in members_of(document):
            field = self._field_of(path.lower())
            if field:
                self._missing.discard(path.lower())
                if field == "provider" and self._provider:
                    continue
                if value is not None and value != "":
                    name = "prompt_tokens" if field == UNCACHED else field
                    yield field, typed(name, value, self._delimiter)
            elif field is None and not is_harmless(value):
                others.append(path)
        if self._provider:
            yield "provider", self._provider
        if others and not self._ignores_others:
            named = [path if is_path(path) else "a key that is not a field name" for path in others]
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


def is_path(path: str) -> bool:
    """Check whether each name of a path looks like a field name, or is a column's position."""
    return all(FIELD_NAME.fullmatch(part) or POSITION.fullmatch(part) for part in path.split("."))
