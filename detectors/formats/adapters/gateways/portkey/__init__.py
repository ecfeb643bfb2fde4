"""Portkey: its logs export (JSON Lines).

Fields: https://portkey.ai/docs/product/observability/logs-export. `req_units` and `res_units` are
the tokens of the request and of the response; the provider's own usage, where the response is
exported too, has the cached part. A `cache_status` of HIT or SEMANTIC HIT was answered from
Portkey's own cache. Some exports have counts with a decimal point, and metadata as a list of keys
and one of values.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import CACHE_HIT, FAILED, ROW, Sighting
from detectors.formats.adapters.exchanges import PROMPTS, caps_of
from detectors.formats.adapters.labels import lower_name
from detectors.formats.adapters.rows import Row, plain_counts, row_of
from detectors.formats.json_logs.usage.reader import read_usage

_SIGNS: Final = ("req_units", "ai_model", "res_units")
_FALSE: Final = (0, False, "0", "false")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if str(row.get("cache_status")).upper().endswith("HIT"):
        yield CACHE_HIT
    elif row.has("is_success") and row.get("is_success") in _FALSE:
        yield FAILED
    else:
        asked, answered = _body(row, "request"), _body(row, "response")
        notes, model = row.inner("metadata"), row.get("ai_model")
        keys, values = notes.get("key"), notes.get("value")
        if isinstance(keys, list) and isinstance(values, list):
            pairs = zip(keys, values, strict=False)
            notes = Row({key: value for key, value in pairs if isinstance(key, str)})
        found = read_usage(answered.get("usage"), model=model)
        yield Sighting(
            readings=found or plain_counts(row.get("req_units"), row.get("res_units")),
            moments=(row.get("created_at"),),
            models=(model, answered.get("model")),
            providers=(lower_name(row.get("ai_org")),),
            origin=ROW,
            ids=(answered.first("id", "responseId"), row.get("id")),
            tags=(notes.get("tag"), row.get("prompt_slug"), notes.get("app")),
            environment=notes.get("environment") or row.get("_environment"),
            session=row.get("trace_id"),
            latency_ms=row.get("response_time"),
            caps=caps_of(asked),
            prompts=tuple(map(asked.get, PROMPTS)),
            service_tier=answered.get("service_tier"),
        )


def _body(row: Row, name: str) -> Row:
    """Return a body, which is a member of an object or a column of its own."""
    dotted = row.get(f"{name}.body")
    return row.inner(name, "body") if dotted is None else row_of(dotted)


ADAPTER: Final = Adapter(
    title="Portkey logs",
    signs=_SIGNS,
    recognizes=lambda row: "ai_model" in row and ("req_units" in row or "ai_org" in row),
    read=_read,
    allowed=members(
        "id created_at is_success ai_org ai_model ai_org_auth_hash cost_currency request_url "
        "request_method cache_status cache_type stream_mode trace_id span_id parent_span_id "
        "span_name mode virtual_key runtime runtime_version sdk_version config prompt_slug "
        "prompt_id prompt_version_id organisation_id workspace_slug api_key_id _environment "
        "metadata* "
        "request(body(model max_tokens max_completion_tokens max_output_tokens)) "
        "response(body(id object model created service_tier usage*))"
    ),
)
