"""The report document as /openapi.json describes it, made from the types that write it."""

from typing import Any, Final

import msgspec

from detectors.contract import Report

_PREFIX: Final = "Report"
REPORT_REFERENCE: Final = {"$ref": "#/components/schemas/ReportDocument"}


def report_schemas() -> dict[str, Any]:
    """The document's schemas by name. Their names keep apart from those of the API's answers."""
    _, components = msgspec.json.schema_components([Report], ref_template="{name}")
    return {_name(name): _in_openapi(schema) for name, schema in components.items()}


def _name(name: str) -> str:
    return "ReportDocument" if name == Report.__name__ else f"{_PREFIX}{name}"


def _in_openapi(node: Any) -> Any:
    """With references that lead to our names, and dollars as the numbers that they are."""
    if isinstance(node, list):
        return [_in_openapi(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "decimal":
        return {"type": "number"}
    found = {key: _in_openapi(value) for key, value in node.items() if key != "default"}
    if isinstance(found.get("title"), str):
        del found["title"]  # by which generators name their classes
    if "$ref" in found:
        found["$ref"] = f"#/components/schemas/{_name(node['$ref'])}"
    return found
