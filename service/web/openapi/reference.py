"""The OpenAPI document in reading order, for the API reference page."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from service.errors import code_for

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_REFERENCE: Final = "#/components/schemas/"
_DEEPEST: Final = 6

Document = Mapping[str, Any]


@dataclass(frozen=True)
class ReferenceField:
    """A parameter or a field of a body: its full path as name, and its type in words."""

    name: str
    kind: str
    is_required: bool
    description: str = ""
    where: str = ""


@dataclass(frozen=True)
class ReferenceAnswer:
    """A response. `code` is the error code if the response is the error envelope."""

    status: int
    phrase: str
    when: str
    media_types: Sequence[str]
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    fields: Sequence[ReferenceField] = ()
    example: str = ""


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    anchor: str
    method: str
    path: str
    summary: str
    description: str
    credentials: Sequence[str]
    scopes: Sequence[str]
    parameters: Sequence[ReferenceField]
    body_types: Sequence[str]
    body: Sequence[ReferenceField]
    body_example: str
    answers: Sequence[ReferenceAnswer]


@dataclass(frozen=True)
class Chapter:
    """The operations of one tag."""

    name: str
    description: str
    operations: Sequence[Operation]


class Reference:
    """Read an OpenAPI document."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @property
    def credentials(self) -> Mapping[str, str]:
        """Return the name and description of each credential."""
        schemes = self._document["components"].get("securitySchemes", {})
        return {
            name: scheme.get("description") or f"In the header {scheme.get('name', '')}."
            for name, scheme in schemes.items()
        }

    def chapters(self) -> list[Chapter]:
        operations: dict[str, list[Operation]] = defaultdict(list)
        for path, methods in self._document["paths"].items():
            for method in _METHODS:
                if found := methods.get(method):
                    operation = self._operation(method, path, found, methods.get("parameters", []))
                    operations[(found.get("tags") or [""])[0]].append(operation)
        return [
            Chapter(tag["name"], tag.get("description", ""), operations[tag["name"]])
            for tag in self._document["tags"]
        ]

    def _operation(
        self, method: str, path: str, found: Document, shared: Sequence[Document]
    ) -> Operation:
        contents = found.get("requestBody", {}).get("content", {})
        schema, security = _schema_of(contents), found.get("security", [])
        words = f"{method} {path}".lower()
        return Operation(
            anchor="-".join("".join(char if char.isalnum() else " " for char in words).split()),
            method=method.upper(),
            path=path,
            summary=found.get("summary", ""),
            description=found.get("description", ""),
            credentials=[name for schemes in security for name in schemes],
            scopes=list(
                dict.fromkeys(
                    chain(*(scopes for schemes in security for scopes in schemes.values()))
                )
            ),
            parameters=[
                ReferenceField(
                    name=each["name"],
                    kind=self._describe(each.get("schema", {})),
                    is_required=each.get("required", False),
                    description=each.get("description", ""),
                    where=each["in"],
                )
                for each in (*shared, *found.get("parameters", []))
            ],
            body_types=list(contents),
            body=list(self._fields(schema)),
            body_example=self._print_example(contents, schema),
            answers=[
                self._answer(int(status), answer)
                for status, answer in sorted(found.get("responses", {}).items())
            ],
        )

    def _answer(self, status: int, found: Document) -> ReferenceAnswer:
        contents = found.get("content", {})
        schema = _schema_of(contents)
        is_error = schema.get("$ref") == f"{_REFERENCE}Error"
        headers = found.get("headers", {})
        return ReferenceAnswer(
            status=status,
            phrase=HTTPStatus(status).phrase,
            when=found.get("description", ""),
            media_types=list(contents),
            code=code_for(status) if is_error else "",
            headers={name: header.get("description", "") for name, header in headers.items()},
            fields=() if is_error else list(self._fields(schema)),
            example="" if is_error else self._print_example(contents, schema),
        )

    def _resolve(self, schema: Document) -> Document:
        name = schema.get("$ref", "")
        if not name.startswith(_REFERENCE):
            return schema
        found: Document = self._document["components"]["schemas"][name.removeprefix(_REFERENCE)]
        return found

    def _fields(
        self, schema: Document, prefix: str = "", depth: int = 0
    ) -> Iterator[ReferenceField]:
        schema = self._resolve(schema)
        if schema.get("type") == "array":
            yield from self._fields(schema.get("items", {}), prefix, depth)
            return
        required = schema.get("required", [])
        for name, found in schema.get("properties", {}).items():
            inner = self._resolve(found)
            yield ReferenceField(
                name=f"{prefix}{name}",
                kind=self._describe(inner),
                is_required=name in required,
                description=found.get("description", "") or inner.get("description", ""),
            )
            is_list = inner.get("type") == "array"
            if depth < _DEEPEST and (is_list or "properties" in inner):
                yield from self._fields(
                    inner, f"{prefix}{name}{'[]' if is_list else ''}.", depth + 1
                )

    def _describe(self, schema: Document) -> str:
        """Describe a schema's type and bounds in words."""
        schema = self._resolve(schema)
        kinds = schema.get("type", "any")
        named = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
        if schema.get("format"):
            named = [f"{' or '.join(named)} ({schema['format']})"]
        words = [" or ".join(named), *_bounds(schema)]
        if isinstance(kinds, list) and "null" in kinds:
            words.append("may be null")
        return ", ".join(words)

    def _print_example(self, contents: Document, schema: Document) -> str:
        """Return the document's own JSON example, or else one generated from the schema."""
        media = contents.get("application/json")
        if media is None:
            return ""
        example = media.get("example", self._example(schema))
        return json.dumps(example, indent=2) if example else ""

    def _example(self, schema: Document, depth: int = 0) -> Any:
        schema = self._resolve(schema)
        if "example" in schema:
            return schema["example"]
        if "enum" in schema:
            return schema["enum"][0]
        kinds = schema.get("type", "object")
        kind = kinds if isinstance(kinds, str) else kinds[0]
        if kind == "array":
            return [self._example(schema.get("items", {}), depth + 1)] if depth < _DEEPEST else []
        if kind == "object":
            required = schema.get("required", [])
            return {
                name: self._example(found, depth + 1)
                for name, found in schema.get("properties", {}).items()
                if name in required and depth < _DEEPEST
            }
        return _SAMPLES.get(schema.get("format", ""), _SAMPLES.get(kind))


def _schema_of(contents: Document) -> Document:
    """Return the JSON schema of a body; the first schema if it has no JSON."""
    first: Document = next(iter(contents.values()), {})
    schema: Document = contents.get("application/json", first).get("schema", {})
    return schema


_SAMPLES: Final[Mapping[str, Any]] = {
    "date-time": "2026-03-01T12:00:00Z",
    "url": "https://example.org/",
    "email": "ada@example.org",
    "string": "…",
    "integer": 0,
    "number": 0.0,
    "boolean": True,
}


def _bounds(schema: Document) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(str(value) for value in schema["enum"] if value is not None)
    for low, high, unit in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " elements"),
    ):
        least, most = schema.get(low), schema.get(high)
        if least is not None and most is not None:
            yield f"{_written(least)} to {_written(most)}{unit}"
        elif most is not None:
            yield f"at most {_written(most)}{unit}"
        elif least is not None:
            yield f"at least {_written(least)}{unit}"


def _written(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


# From this number of fields on, they are listed once and other operations link to them.
_MANY: Final = 20


@dataclass(frozen=True)
class AnswerShape:
    """Responses of one operation with the same fields; `listed_at` lists the fields, if set."""

    statuses: Sequence[int]
    fields: Sequence[ReferenceField]
    examples: Sequence[str]
    listed_at: Operation | None = None


def list_shapes(chapters: Iterable[Chapter]) -> dict[str, list[AnswerShape]]:
    """Return the shapes of each operation by its anchor, for chapters in reading order."""
    listed: dict[tuple[ReferenceField, ...], Operation] = {}
    shapes: dict[str, list[AnswerShape]] = {}
    for operation in chain(*(chapter.operations for chapter in chapters)):
        groups: dict[tuple[ReferenceField, ...], list[ReferenceAnswer]] = {}
        for answer in operation.answers:
            if answer.fields:
                groups.setdefault(tuple(answer.fields), []).append(answer)
        shapes[operation.anchor] = []
        for fields, answers in groups.items():
            first = listed.setdefault(fields, operation)
            is_elsewhere = first is not operation and len(fields) >= _MANY
            shape = AnswerShape(
                statuses=[answer.status for answer in answers],
                fields=fields,
                examples=list(dict.fromkeys(each.example for each in answers if each.example)),
                listed_at=first if is_elsewhere else None,
            )
            shapes[operation.anchor].append(shape)
    return shapes
