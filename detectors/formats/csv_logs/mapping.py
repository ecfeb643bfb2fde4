"""Map the columns of a foreign CSV to the record's fields.

Nothing is guessed: each column is a field by its own name, is mapped, or is dropped by name. A
column is named by its header, in any case, or by its position, such as `#3`. A path such as
`usage.input` is a member of the JSON in the column `usage`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from detectors.contract import FIELD_NAME, MAX_LABEL_LENGTH, REQUIRED_FIELDS
from detectors.errors import ColumnMappingError, ContractError, UnreadableLogError
from detectors.formats.columns import TABLE_FIELDS
from detectors.formats.csv_logs.names import MAX_COLUMNS, TARGETS, UNCACHED, is_text_column
from detectors.formats.fields import LABEL, PROVIDER_TEXT, RECORD_V2
from detectors.formats.problems import MAX_NAMES, Offenders, Problem, contract_error, shown_name

_FREE_LABELS: Final = frozenset(
    name for name, known in RECORD_V2.items() if known.expected == LABEL.expected
)
POSITION: Final = re.compile(r"#([1-9][0-9]{0,4})")
_PAIR: Final = "Map a column as theirs=ours, such as created_at=ts; theirs= drops the column."


class Header(NamedTuple):
    """Where the fields of a CSV's rows are."""

    fields: list[str]  # of the columns that are kept, in their order
    width: int
    kept: list[int] | None = None  # their indexes; None if all columns are kept
    provider: str = ""  # of every call, where no column has it
    adds_cached: bool = False  # the prompt tokens are without the cached tokens


@dataclass(frozen=True)
class ColumnMapping:
    """How the columns of a CSV become fields.

    Parameters
    ----------
    columns : mapping of str to str
        The file's column names, and the fields of `UsageRecord` that they become. The field
        ``uncached_prompt_tokens`` adds the cached tokens, for counts without them. Columns that
        already have the name of a field need not be mapped.
    dropped : collection of str
        The columns that are ignored, each by name.
    provider : str, optional
        The model provider of every call, for a file without such a column; or `by-model`, for calls
        of several providers that the models' names tell apart. A name that is no known provider's
        has the provider `unknown`, and the report lists it as not priced.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    dropped: Collection[str] = ()
    provider: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns.values() if name not in TARGETS]
        if unknown:
            raise ColumnMappingError(
                f"{shown_name(unknown[0], 'A name in the mapping')} is not a field: use "
                f"one of {', '.join(TARGETS)}."
            )
        if self.provider and not PROVIDER_TEXT.match(self.provider):
            raise ColumnMappingError(f"The provider must be {RECORD_V2['provider'].expected}.")
        if len(self.columns) + len(self.dropped) > MAX_COLUMNS:
            raise ColumnMappingError(f"Map at most {MAX_COLUMNS:,} columns.")

    @property
    def parts(self) -> tuple[str, ...]:
        pairs = sorted(self.fields().items())
        return (*(f"{theirs}={ours}" for theirs, ours in pairs), self.provider)

    def _named(self) -> set[str]:
        """Return the names of all columns that are mapped or dropped, or that paths begin with."""
        named = {_normal(name) for name in (*self.columns, *self.dropped)}
        return named | {above for name in named for above in _objects_around(name)}

    def count_named(self, cells: Sequence[str]) -> int:
        """Count the cells of a header that are fields, mapped or dropped."""
        named = self._named()
        return sum(
            cell in TABLE_FIELDS or cell in named or f"#{number}" in named
            for number, cell in enumerate(cells, 1)
        )

    def reaches_into(self, cells: Sequence[str]) -> bool:
        """Check for a path such as `usage.input`, into the JSON of the column `usage`."""
        known = {*cells, *(f"#{number}" for number in range(1, len(cells) + 1))}
        return any(
            name not in known and not known.isdisjoint(_objects_around(name))
            for name in map(_normal, self.columns)
        )

    def keys(self, cells: Sequence[str]) -> list[str]:
        """Return the names of a header's columns as paths have them: their own or their position.

        A column that shares its name, or that is not named here by what looks like no field name,
        has that of its position.
        """
        named = self._named()
        count = Counter(cells)
        return [
            cell
            if f"#{number}" not in named
            and count[cell] == 1
            and (cell in named or FIELD_NAME.fullmatch(cell))
            else f"#{number}"
            for number, cell in enumerate(cells, 1)
        ]

    def fields(self) -> dict[str, str]:
        """Return the fields by column, in lower case; nothing is the field of a dropped column."""
        return {_normal(theirs): ours for theirs, ours in self.columns.items()} | dict.fromkeys(
            map(_normal, self.dropped), ""
        )

    def resolve(self, cells: Sequence[str]) -> Header:
        """Return where the fields of this header are; its cells are stripped and in lower case.

        Raise `ColumnMappingError` for columns that are not in the header, and for two columns of
        one field; `ContractError` for columns that are neither mapped nor dropped.
        """
        indexes = dict[str, list[int]]()
        for index, cell in enumerate(cells):
            indexes.setdefault(cell, []).append(index)
        mapped = _find_columns(self.columns, indexes, len(cells))
        dropped = _find_columns(self.dropped, indexes, len(cells))
        if mapped.keys() & dropped.keys():
            raise ColumnMappingError("A column is both mapped and dropped.")
        kept = [index for index in range(len(cells)) if index not in dropped]
        fields = [
            self.columns[mapped[index]] if index in mapped else cells[index] for index in kept
        ]
        unknown = [index for name, index in zip(fields, kept, strict=True) if name not in TARGETS]
        if unknown:
            names = [shown_name(cells[index], f"#{index + 1}") for index in unknown[:MAX_NAMES]]
            more = f" and {len(unknown) - MAX_NAMES:,} more" if len(unknown) > MAX_NAMES else ""
            raise ContractError(
                f"These columns are neither mapped nor dropped: {', '.join(names)}{more}; map each "
                "to a field, or drop it by name.",
                tuple(f"header: unknown field {name}" for name in names),
            )
        for name, index in zip(fields, kept, strict=True):
            if name in _FREE_LABELS and is_text_column(cells[index]):
                shown = shown_name(cells[index], f"#{index + 1}")
                raise ContractError(
                    f"The column {shown} holds text, which is never accepted: drop it.",
                    (f"header: text in {shown}",),
                )
        targets = ["prompt_tokens" if name == UNCACHED else name for name in fields]
        if self.provider and "provider" in targets:
            raise ColumnMappingError("The file has a column of providers: give no other provider.")
        repeated, count = Counter(targets).most_common(1)[0] if targets else ("", 0)
        if count > 1:
            raise ColumnMappingError(f"Two columns become {repeated}: map one and drop the other.")
        check_required([*targets, "provider"] if self.provider else targets)
        own = None if len(kept) == len(cells) else kept
        return Header(targets, len(cells), own, self.provider, adds_cached=UNCACHED in fields)


Mapped = ColumnMapping | Mapping[str, str | None]


def as_mapping(given: Mapped | None) -> ColumnMapping | None:
    if given is None or isinstance(given, ColumnMapping):
        return given
    columns = {theirs: ours for theirs, ours in given.items() if ours is not None}
    return ColumnMapping(columns, [theirs for theirs in given if theirs not in columns])


def read_pairs(pairs: Iterable[str], provider: str = "") -> ColumnMapping | None:
    columns, dropped = dict[str, str](), list[str]()
    for pair in filter(None, pairs):
        theirs, sign, ours = (part.strip() for part in pair.rpartition("="))
        if not sign or not theirs or len(theirs) > MAX_LABEL_LENGTH:
            raise ColumnMappingError(_PAIR)
        if theirs in columns or theirs in dropped:
            raise ColumnMappingError(
                f"The column {shown_name(theirs, 'of one name')} is mapped twice."
            )
        if ours:
            columns[theirs] = ours.lower()
        else:
            dropped.append(theirs)
    return ColumnMapping(columns, dropped, provider) if columns or dropped or provider else None


def check_header(cells: Sequence[str]) -> Header:
    offenders = Offenders()
    for number, cell in enumerate(cells, 1):
        if cell not in TABLE_FIELDS:
            offenders.add("header", Problem("unknown", shown_name(cell, f"column {number}")))
    if offenders.named:
        raise contract_error(offenders)
    check_required(cells)
    if len(set(cells)) < len(cells):
        raise UnreadableLogError("Each column of a CSV needs a different name: rename one.")
    return Header(list(cells), len(cells))


def check_required(names: Collection[str]) -> None:
    absent = [name for name in REQUIRED_FIELDS if name not in names]
    if absent:
        raise UnreadableLogError(
            f"A CSV needs these columns: {', '.join(REQUIRED_FIELDS)}; "
            f"add or map: {', '.join(absent)}."
        )


def _objects_around(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path


def _normal(name: str) -> str:
    return name.strip().lower()


def _find_columns(
    named: Iterable[str], indexes: Mapping[str, Sequence[int]], width: int
) -> dict[int, str]:
    found = dict[int, str]()
    for name in named:
        own, position = indexes.get(_normal(name), ()), POSITION.fullmatch(name.strip())
        shown = shown_name(name.strip(), "of one name in the mapping")
        if len(own) > 1:
            raise ColumnMappingError(
                f"The file has several columns {shown}: name them by position, such as #3."
            )
        if own:
            index = own[0]
        elif position and int(position[1]) <= width:
            index = int(position[1]) - 1
        else:
            raise ColumnMappingError(
                f"The file has no column {shown}: map columns that are in its header."
            )
        if index in found:
            raise ColumnMappingError("A column is mapped twice: by its name and its position.")
        found[index] = name
    return found
