"""Group the responses of the API reference by their fields, so a page lists the fields once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.web.openapi.reference import Answer, Chapter, Field, Operation

# From this number of fields on, they are listed once and other operations link to them.
_MANY: Final = 20


@dataclass(frozen=True)
class Shape:
    """Responses of one operation with the same fields; `listed_at` lists the fields, if set."""

    statuses: Sequence[int]
    fields: Sequence[Field]
    examples: Sequence[str]
    listed_at: Operation | None = None


def list_shapes(chapters: Iterable[Chapter]) -> dict[str, list[Shape]]:
    """Return the shapes of each operation by its anchor, for chapters in reading order."""
    listed: dict[tuple[Field, ...], Operation] = {}
    operations = [operation for chapter in chapters for operation in chapter.operations]
    return {operation.anchor: list(_shapes_of(operation, listed)) for operation in operations}


def _shapes_of(operation: Operation, listed: dict[tuple[Field, ...], Operation]) -> Iterator[Shape]:
    groups: dict[tuple[Field, ...], list[Answer]] = {}
    for answer in operation.answers:
        if answer.fields:
            groups.setdefault(tuple(answer.fields), []).append(answer)
    for fields, answers in groups.items():
        first = listed.setdefault(fields, operation)
        is_elsewhere = first is not operation and len(fields) >= _MANY
        yield Shape(
            statuses=[answer.status for answer in answers],
            fields=fields,
            examples=list(dict.fromkeys(answer.example for answer in answers if answer.example)),
            listed_at=first if is_elsewhere else None,
        )
