"""The schemas of the report document for /openapi.json, generated from its types."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from detectors.contract import Report

_PREFIX: Final = "Report"
# Descriptions of fields by type; self-explanatory fields have none.
_WORDS: Final = {
    "AuditSummary": {
        "records": "Number of audited calls, without invalid and duplicate rows.",
        "valid_pct": "Share of valid rows, 0 to 100.",
        "echoes_dropped": "Duplicate rows: calls logged more than once and counted once.",
        "observed_days": "Days (UTC) from the first call to the last, inclusive.",
        "first_call": "ISO 8601, UTC. Null if there are no calls.",
        "last_call": "ISO 8601, UTC. Null if there are no calls.",
        "total_spend_usd": "Cost of the priced calls in US dollars.",
        "projected_spend_usd": "Spend projected to 30 days.",
        "savings_pct": "Avoidable share of the spend, 0 to 100. Overlaps are counted once.",
        "projected_savings_usd": "Avoidable spend in 30 days. Overlaps are counted once.",
        "equiv_spend": "Whether some of the spend is a list-price equivalent, not a bill.",
        "below_floor": "Number of findings too small to be listed.",
        "overfull_records": "Number of calls with more cached tokens than prompt tokens.",
    },
    "Finding": {
        "id": "Unique within the audit.",
        "kind": "The case of the detector that applies.",
        "route": "The `tag`, or else the `endpoint`, or else the model.",
        "calls": "Number of flagged calls.",
        "severity": "`high`, `medium` or `low`, by monthly dollars.",
        "confidence": "`VERIFIED`, `ESTIMATED` or `INFORMATIONAL`.",
        "monthly_cost_impact_usd": "Potential savings in 30 days, from this finding alone.",
        "observed_cost_impact_usd": "Potential savings in the observed days, from this finding.",
        "fix": "The recommended change.",
        "suggested_model": "The cheaper model to try, if there is one.",
        "evidence": "The most expensive flagged calls, as counts.",
        "formula": "How the potential savings are calculated.",
    },
    "Method": {
        "title": "The display name.",
        "evidence": "The columns in which the detector's evidence is shown.",
    },
    "EvidenceColumn": {
        "field": "A field of the evidence.",
        "label": "The heading of the column.",
        "format": "`limit` is a count of which 0 means that none was set.",
    },
    "Report": {
        "findings": "Ranked by monthly impact. Potential savings overlap and don't add up.",
        "spend_by_model": "Most expensive first.",
        "spend_by_route": "Most expensive first.",
        "unpriced": "Models without a known price. We never guess prices.",
        "savings_by_detector": "Savings of each detector alone, and after the detectors before it.",
        "methods": "How each detector works.",
    },
}
REPORT_REFERENCE: Final = {"$ref": "#/components/schemas/ReportDocument"}


def report_schemas() -> dict[str, Any]:
    """Return the document's schemas by name, with a prefix that keeps the names unique."""
    _, components = msgspec.json.schema_components([Report], ref_template="{name}")
    return {
        _name(name): _described(_in_openapi(schema), _WORDS.get(name, {}))
        for name, schema in components.items()
    }


def _described(schema: dict[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    properties = {
        name: {**field, "description": words[name]} if name in words else field
        for name, field in schema["properties"].items()
    }
    described = {**schema, "properties": properties}
    if "floor_usd" in properties:
        described["additionalProperties"] = {"type": "number"}  # each detector's thresholds
    return described


def _name(name: str) -> str:
    return "ReportDocument" if name == Report.__name__ else f"{_PREFIX}{name}"


def _in_openapi(node: Any) -> Any:
    """Rewrite references to our names, and decimal strings to numbers."""
    if isinstance(node, list):
        return [_in_openapi(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "decimal":
        return {"type": "number"}
    found = {key: _in_openapi(value) for key, value in node.items() if key != "default"}
    if isinstance(found.get("title"), str):
        del found["title"]  # code generators would name classes after it
    if "$ref" in found:
        found["$ref"] = f"#/components/schemas/{_name(node['$ref'])}"
    return found
