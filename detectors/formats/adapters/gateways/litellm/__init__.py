"""LiteLLM: rows of `LiteLLM_SpendLogs`, and its standard logging payload.

Fields: https://docs.litellm.ai/docs/proxy/logging_spec (`StandardLoggingPayload`) and the table of
https://github.com/BerriAI/litellm/blob/main/schema.prisma (`model LiteLLM_SpendLogs`).
`prompt_tokens` include cached tokens; `metadata.usage_object` has the parts. A `cache_hit` row was
answered from LiteLLM's own cache and not billed. `messages`, `response` and `proxy_server_request`
are text where prompts are stored, and `{}` where they are not.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, Sums, any_of, members
from detectors.formats.adapters.calls import (
    CACHE_HIT,
    FAILED,
    ROW,
    TOTALS,
    Origin,
    Sighting,
    milliseconds_between,
)
from detectors.formats.adapters.exchanges import caps_of
from detectors.formats.adapters.labels import answer_id
from detectors.formats.adapters.rows import Row, parsed, plain_counts, read_usages

_BATCHES: Final = ("aretrieve_batch", "retrieve_batch")  # what a whole batch cost
# A response that was made, or read again: https://github.com/BerriAI/litellm/issues/17814
_RESPONSES: Final = ("aresponses", "responses", "aget_responses", "get_responses")
_RESPONSE: Final = Origin(asked="response")
_TRUE: Final = (True, "True", "true")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    if row.get("cache_hit") in _TRUE:
        yield CACHE_HIT
    elif row.get("status") == "failure":
        yield FAILED
    elif row.get("call_type") in _BATCHES:
        yield TOTALS
    else:
        response, request = row.inner("response"), row.inner("proxy_server_request")
        metadata, options = row.inner("metadata"), row.inner("model_parameters")
        noted = metadata.get("usage_object") or parsed(row.get("usage_object"))
        model, provider = row.get("model"), row.get("custom_llm_provider")
        if isinstance(model, str) and isinstance(provider, str):
            model = model.removeprefix(f"{provider}/")
        named = response.get("id"), metadata.get("response_id")
        names = (row.get("id"), row.get("request_id"), *named)
        found = read_usages(
            noted,
            response.get("usage"),
            provider={"xai": "x-ai"}.get(provider, provider) if isinstance(provider, str) else "",
            model=model,
        )
        tags = parsed(row.get("request_tags"))
        between = milliseconds_between(row.get("startTime"), row.get("endTime"))
        messages = (each.get(name) for each in (row, request) for name in ("messages", "input"))
        yield Sighting(
            readings=found or plain_counts(row.get("prompt_tokens"), row.get("completion_tokens")),
            moments=(row.get("startTime"), row.get("start_time")),
            models=(model, response.get("model")),
            providers=(provider,),
            origin=_RESPONSE if row.get("call_type") in _RESPONSES else ROW,
            ids=(*map(answer_id, names), *names),
            tags=(*(tags if isinstance(tags, list) else ()), row.get("team_id")),
            session=row.get("session_id"),
            reported_usd=row.first("response_cost", "spend"),
            endpoint=row.get("call_type"),
            latency_ms=row.get("request_duration_ms") if between is None else between,
            caps=caps_of(options),
            prompts=(
                request.get("system"),
                request.get("instructions"),
                next((parsed(value) for value in messages if value and value != "{}"), None),
            ),
            service_tier=response.get("service_tier") or options.get("service_tier"),
        )


ADAPTER: Final = Adapter(
    title="LiteLLM spend logs",
    signs=("call_type",),
    recognizes=lambda row: True,
    read=_read,
    allowed=members(
        "request_id id trace_id call_type stream status api_key spend total_tokens prompt_tokens "
        "completion_tokens startTime endTime completionStartTime request_duration_ms model "
        "model_id model_group custom_llm_provider api_base user end_user team_id organization_id "
        "agent_id session_id cache_hit cache_key requester_ip_address mcp_namespaced_tool_name "
        "usage_object* request_tags cost_breakdown* response_cost saved_cache_cost "
        "model_parameters(max_tokens max_completion_tokens max_output_tokens service_tier) "
        "metadata(response_id litellm_call_id usage_object* cost_breakdown* status user_api_key "
        "user_api_key_alias user_api_key_team_id user_api_key_team_alias user_api_key_org_id "
        "user_api_key_user_id user_api_key_project_id user_api_key_end_user_id user_api_key_hash "
        "batch_models additional_usage_values* litellm_overhead_time_ms attempted_retries "
        "max_retries model_map_information* cold_storage_object_key applied_guardrails*)"
    ),
    sums=Sums(
        what="LiteLLM's daily spend",
        signs=any_of("api_requests prompt_tokens"),
        instead="export rows of LiteLLM_SpendLogs instead",
    ),
)
