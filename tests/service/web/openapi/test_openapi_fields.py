"""Every field and parameter in both OpenAPI documents, no more and no less.

A `?` marks optional fields. `described.watch` checks every response of every test against the
document. The report's own schemas are generated from its types.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from service.web.openapi.report_schema import report_schemas
from tests.service.support.described import operations

DESCRIBED: Final = tomllib.loads(Path(__file__).with_name("described.toml").read_text())
FIELDS: Final[Mapping[str, str]] = DESCRIBED["fields"]


class Operation(NamedTuple):
    """What generated code calls it: a name that stays; and what it takes and answers."""

    name: str
    statuses: str
    parameters: str = ""
    bodies: Mapping[str, str] = {}


OPERATIONS: Final = {name: Operation(**one) for name, one in DESCRIBED["operations"].items()}


def _words(fields: Any, required: Any) -> set[str]:
    return {name if name in required else f"{name}?" for name in fields}


def _fields(schema: dict[str, Any]) -> set[str]:
    return _words(schema.get("properties", {}), schema.get("required", []))


def test_every_shape_has_exactly_its_fields(both_documents: dict[str, Any]) -> None:
    described = {
        name: _fields(schema)
        for name, schema in both_documents["components"]["schemas"].items()
        if name not in report_schemas()
    }
    assert described == {name: set(fields.split()) for name, fields in FIELDS.items()}


# Told by their names, or by the standard that they come from; what administrators see.
SPEAKING: Final = frozenset(
    [
        "Error",
        "ServerMetadata",
        "Overview",
        "Purged",
        "Rerun",
        "SignedOut",
        "MarkPaid",
        "MarkedPaid",
        "Waiting",
    ]
)


def test_every_field_and_parameter_says_what_it_holds(both_documents: dict[str, Any]) -> None:
    silent = [
        (name, field)
        for name, schema in both_documents["components"]["schemas"].items()
        if name not in report_schemas() and not name.endswith("Line") and name not in SPEAKING
        for field, found in schema.get("properties", {}).items()
        if not found.get("description")
    ]
    silent += [
        (name, one["name"])
        for name, operation in operations(both_documents).items()
        for one in operation["parameters"]
        if not one.get("description") and "/admin" not in name and "/r/" not in name
    ]
    assert silent == []


def test_every_operation_has_exactly_its_name_statuses_parameters_and_bodies(
    both_documents: dict[str, Any],
) -> None:
    described = {name: _describe(one) for name, one in operations(both_documents).items()}
    assert described == {
        name: (
            one.name,
            set(one.statuses.split()),
            set(one.parameters.split()),
            {kind: set(fields.split()) for kind, fields in one.bodies.items()},
        )
        for name, one in OPERATIONS.items()
    }
    assert all(one["summary"] for one in operations(both_documents).values())


def _describe(operation: dict[str, Any]) -> tuple[Any, ...]:
    parameters = operation["parameters"]
    required = [one["name"] for one in parameters if one.get("required")]
    bodies = operation.get("requestBody", {"content": {}})["content"]
    return (
        operation["operationId"],
        set(operation["responses"]),
        _words([one["name"] for one in parameters], required),
        {kind: _body(one["schema"]) for kind, one in bodies.items()},
    )


def _body(schema: dict[str, Any]) -> set[str]:
    return {schema["$ref"].rpartition("/")[2]} if "$ref" in schema else _fields(schema)
