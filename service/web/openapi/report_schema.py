"""The report document as /openapi.json describes it, made from the types that write it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from detectors.contract import Report

_PREFIX: Final = "Report"
# By the name of the type, what its fields hold; what speaks for itself is left out.
_WORDS: Final = {
    "AuditSummary": {
        "records": "Calls that were audited, invalid rows and echoes not counted.",
        "valid_pct": "Share of valid rows, 0 to 100.",
        "echoes_dropped": "Calls that were logged twice and are counted once.",
        "observed_days": "Days (UTC) from the first call to the last, both included.",
        "first_call": "ISO 8601, UTC; null without calls.",
        "last_call": "ISO 8601, UTC; null without calls.",
        "total_spend_usd": "What the priced calls cost, in US dollars.",
        "projected_spend_usd": "The same for 30 days.",
        "savings_pct": "The avoidable share of the spend, overlaps counted once; 0 to 100.",
        "projected_savings_usd": "What can be avoided in 30 days, overlaps counted once.",
        "equiv_spend": "Whether some of it is list-price value and not a bill.",
        "below_floor": "Findings that are too small to be listed.",
        "overfull_records": "Calls with more cached tokens than prompt tokens.",
    },
    "Finding": {
        "id": "Names it within its audit.",
        "kind": "Which of its detector's cases it is.",
        "route": "The tag, else the endpoint, else the model.",
        "calls": "How many calls are flagged.",
        "severity": "`high`, `medium` or `low`, by its monthly dollars.",
        "confidence": "`VERIFIED`, `ESTIMATED` or `INFORMATIONAL`.",
        "monthly_cost_impact_usd": "What it alone would save in 30 days.",
        "observed_cost_impact_usd": "What it alone would have saved in the observed days.",
        "fix": "What to do.",
        "suggested_model": "The model to try instead, where there is one.",
        "evidence": "Some of the flagged calls, as counts.",
        "formula": "How its dollars are reckoned.",
    },
    "Report": {
        "findings": "Ranked by monthly impact. Their savings overlap: do not add them up.",
        "spend_by_model": "The dearest first.",
        "spend_by_route": "The dearest first.",
        "unpriced": "Models without a known price; they are never guessed.",
        "savings_by_detector": "Each alone, and of what those before it leave.",
        "methods": "How each detector judges, in its own words.",
    },
}
REPORT_REFERENCE: Final = {"$ref": "#/components/schemas/ReportDocument"}


def report_schemas() -> dict[str, Any]:
    """The document's schemas by name. Their names keep apart from those of the API's answers."""
    _, components = msgspec.json.schema_components([Report], ref_template="{name}")
    return {
        _name(name): _described(_in_openapi(schema), _WORDS.get(name, {}))
        for name, schema in components.items()
    }


def _described(schema: dict[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    fields = schema["properties"].items()
    told = {name: {**one, "description": words[name]} for name, one in fields if name in words}
    described = {**schema, "properties": {**schema["properties"], **told}}
    if "floor_usd" in schema["properties"]:
        described["additionalProperties"] = {"type": "number"}  # those of each detector
    return described


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
