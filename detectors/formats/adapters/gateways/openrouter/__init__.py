"""OpenRouter: a CSV of generations, with a row per call, and its generation API.

Fields: https://openrouter.ai/docs/api-reference/get-a-generation. The native counts are billed and
include cached and reasoning tokens. `GET /api/v1/activity`, whose fields are at
https://openrouter.ai/docs/client-sdks/typescript/models/activityresponse, has daily totals per
model and endpoint.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, Sums, any_of, members
from detectors.formats.adapters.calls import NO_USAGE, ROW, Sighting
from detectors.formats.adapters.rows import Row, token_members
from detectors.formats.json_logs.usage.reader import read_usage

_SIGNS: Final = ("native_tokens_prompt", "tokens_prompt")
_TRUE: Final = (True, "true", "True", "TRUE")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    call = row.inner("data") if row.has("data") else row
    counts = token_members(call, "tokens_")
    native = token_members(call, "native_tokens_")  # these are billed
    counts.update({name: count for name, count in native.items() if count is not None})
    readings = read_usage(counts, dialect="openrouter")
    if not readings:
        yield NO_USAGE
        return
    yield Sighting(
        readings=readings,
        moments=(call.get("created_at"),),
        models=(call.get("model"), call.get("model_permaslug")),
        providers=("openrouter",),
        origin=ROW,
        ids=(call.first("generation_id", "id"),),
        tags=(call.get("app_name"), call.get("api_key_name")),
        endpoint=call.get("api_type"),
        session=call.get("session_id"),
        reported_usd=call.first("total_cost", "cost_total", "usage"),
        latency_ms=call.first("latency", "generation_time_ms", "generation_time"),
        service_tier=call.get("service_tier"),
        status="cancelled" if call.get("cancelled") in _TRUE else None,
    )


_CALL: Final = (
    "generation_id id upstream_id created_at model model_permaslug provider_name variant app_name "
    "api_key_name app_id api_type router origin session_id cancelled streamed user external_user "
    "finish_reason native_finish_reason finish_reason_raw finish_reason_normalized "
    "data_region http_referer service_tier preset_id user_agent web_search_engine "
    "provider_responses(id endpoint_id model_permaslug provider_name status latency is_byok)"
)

ADAPTER: Final = Adapter(
    title="OpenRouter calls",
    signs=(*_SIGNS, "data"),
    recognizes=lambda row: any(name in row or row.mentions("data", name) for name in _SIGNS),
    read=_read,
    allowed=members(f"{_CALL} data({_CALL})"),
    sums=Sums(
        what="OpenRouter's daily activity",
        signs=any_of(
            *(
                f"requests {name}"
                for name in ("byok_usage_inference", "byokUsageInference", "model_permaslug")
            )
        ),
        instead="export the calls at https://openrouter.ai/logs instead",
        is_report=True,
    ),
)
