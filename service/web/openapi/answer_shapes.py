"""Which answers of the API's reference have the same fields, so that a page tells them once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.web.openapi.reference import Answer, Chapter, Field, Operation

# So many fields are told at one operation, to which the others with the same ones point.
_MANY: Final = 20


@dataclass(frozen=True)
class Shape:
    """Answers of one operation with the same fields, which may stand at another: `told_at`."""

    statuses: Sequence[int]
    fields: Sequence[Field]
    examples: Sequence[str]
    told_at: Operation | None = None


def list_shapes(chapters: Iterable[Chapter]) -> dict[str, list[Shape]]:
    """The shapes of each operation, by its anchor, for chapters in the order they are read in."""
    told: dict[tuple[Field, ...], Operation] = {}
    operations = (one for chapter in chapters for one in chapter.operations)
    return {one.anchor: list(_shapes_of(one, told)) for one in operations}


def _shapes_of(operation: Operation, told: dict[tuple[Field, ...], Operation]) -> Iterator[Shape]:
    groups: dict[tuple[Field, ...], list[Answer]] = {}
    for answer in operation.answers:
        if answer.fields:
            groups.setdefault(tuple(answer.fields), []).append(answer)
    for fields, answers in groups.items():
        first = told.setdefault(fields, operation)
        is_elsewhere = first is not operation and len(fields) >= _MANY
        yield Shape(
            statuses=[one.status for one in answers],
            fields=fields,
            examples=list(dict.fromkeys(one.example for one in answers if one.example)),
            told_at=first if is_elsewhere else None,
        )
