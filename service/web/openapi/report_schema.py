"""The schemas of the report document for /openapi.json, generated from its types."""

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
        "savings_pct": "Share of verified and estimated savings in the spend, 0 to 100.",
        "projected_savings_usd": "Verified and estimated savings. Overlaps are counted once.",
        "equiv_spend": "Whether the dollars of some calls are a list-price equivalent, not a bill.",
        "below_floor": "Number of findings too small to be listed.",
        "overfull_records": "Number of calls with more cached tokens than prompt tokens.",
        "projection": "`good`, `rough`, `very rough`, or `none`: then nothing is monthly.",
        "span_days": "Days that the calls cover, without calls far from all others.",
        "window_start": "Start of the window that monthly figures are projected from.",
        "monthly_factor": "Monthly figures are those of the window, times this factor.",
        "window_spend_usd": "Spend in the window.",
        "verified_savings_usd": "Follows from billed counts or equal hashes.",
        "estimated_savings_usd": "Beyond verified savings, by stated assumptions.",
        "estimated_savings_low_usd": "Low end of the estimated savings.",
        "estimated_savings_high_usd": "High end of the estimated savings.",
        "conditional_savings_usd": "Beyond both, if cheaper models pass your own evaluation.",
        "conditional_savings_low_usd": "Low end of the conditional savings.",
        "conditional_savings_high_usd": "High end, with wider limits.",
        "outlier_calls": "Number of calls far from all others, in `total_spend_usd` only.",
        "outlier_times": "Times of the first of these calls.",
        "included_calls": "Calls that a plan includes, in no other figure but `records`. Absent if"
        " there are none.",
    },
    "Finding": {
        "id": "Unique within the audit.",
        "kind": "The case of the detector that applies.",
        "route": "The `tag`, or else the `endpoint`, or else the model.",
        "calls": "Number of flagged calls.",
        "severity": "`high`, `medium` or `low`, by monthly dollars.",
        "confidence": "`VERIFIED`, `ESTIMATED`, `CONDITIONAL` or `INFORMATIONAL`.",
        "monthly_cost_impact_usd": "Potential savings in 30 days, from this finding alone.",
        "observed_cost_impact_usd": "Potential savings in the window, from this finding.",
        "fix": "The recommended change.",
        "suggested_model": "The cheaper model to try, if there is one.",
        "evidence": "The most expensive flagged calls, as counts.",
        "formula": "How the potential savings are calculated.",
        "code": "The change as code for the provider's library, where there is one.",
        "impact_low": "Low end of `monthly_cost_impact_usd`.",
        "impact_high": "High end of `monthly_cost_impact_usd`.",
        "first_seen": "Time of the first flagged call, before the window too.",
        "last_seen": "Time of the last flagged call.",
    },
    "DataQuality": {
        "assumed_input_calls": "Calls whose source doesn't say whether the input tokens include the"
        " cached ones. Absent if there are none.",
        "future_calls": "Calls dated in the future by more than a day. Your account's figures"
        " exclude them until then. Absent if there are none.",
        "unknown_fields": "Numbers in usage objects that we don't know, so the cost of their calls"
        " may be too low. Absent if there are none.",
        "reported_costs": "The costs that sources report, and those of the same calls. Absent if no"
        " source reports any.",
        "missing_rates": "Tiers, regions and units that no rate is known for, of the most calls"
        " first. Absent if there are none.",
        "skipped_rows": "Rows that are no calls to bill, by reason, such as failed requests. Absent"
        " if there are none.",
    },
    "MissingRate": {
        "name": "The tier, the region, or the record's field or unit.",
        "calls": "Calls that have no rate for it. At such a tier or in such a region they cost what"
        " others do; a unit is billed with the tokens that it is part of, a fee not at all.",
    },
    "UnknownField": {
        "name": "The path of the field; empty if it doesn't look like a field name.",
        "largest": "The largest number found there.",
    },
    "PlanUsage": {
        "calls": "Number of calls that a plan includes; no other dollars are of them.",
        "unpriced_calls": "Those without a known price.",
        "value_usd": "What they would have cost through the API, in US dollars: no spend.",
        "models": "Most valuable first.",
        "routes": "Most valuable first.",
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
    "PriceSource": {
        "excluded": "Prices of the account that could not be applied, with the reason.",
    },
    "Report": {
        "findings": "Ranked by monthly impact. Potential savings overlap and don't add up.",
        "spend_by_model": "Most expensive first.",
        "spend_by_route": "Most expensive first.",
        "unpriced": "Models without a known price. We never guess prices.",
        "savings_by_detector": "Savings of each detector alone, and after the detectors before it.",
        "methods": "How each detector works.",
        "remainders": "Findings that are not listed, by detector.",
        "no_longer_happening": "Findings whose calls all lie before the window.",
        "other_past_findings": "Number of these that are not listed.",
        "wider_limits": "Groups that only wider limits would find.",
        "data_quality": "How far the figures can be trusted.",
        "plan_usage": "Calls that a plan includes, and their value. Absent if there are none.",
    },
}
REPORT_REFERENCE: Final = {"$ref": "#/components/schemas/ReportDocument"}


def report_schemas() -> dict[str, Any]:
    """Return the document's schemas by name, with a prefix that keeps the names unique."""
    _, components = msgspec.json.schema_components([Report], ref_template="{name}")
    schemas = {}
    for name, raw in components.items():
        schema, words = _in_openapi(raw), _WORDS.get(name, {})
        properties = {
            field: {**shape, "description": words[field]} if field in words else shape
            for field, shape in schema["properties"].items()
        }
        schemas[_name(name)] = described = {**schema, "properties": properties}
        if "floor_usd" in properties:
            # Each detector's thresholds.
            kinds = [{"type": "number"}, {"type": "array", "items": {"type": "integer"}}]
            described["additionalProperties"] = {"anyOf": kinds}
    return schemas


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
