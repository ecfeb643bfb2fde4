"""PostHog: events `$ai_generation` and `$ai_embedding`, from batch exports, SQL results or CSV.

Fields: https://posthog.com/docs/ai-observability/generations and, on cached tokens,
https://posthog.com/docs/ai-observability/calculating-costs: `$ai_cache_reporting_exclusive` says
whether `$ai_input_tokens` exclude them, by default so for Anthropic and for Claude anywhere. Events
of traces and spans repeat their generations' usage.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import FAILED, NO_USAGE, ROW, Sighting
from detectors.formats.adapters.labels import answer_id, lower_name
from detectors.formats.adapters.rows import Row, parsed, token_members
from detectors.formats.json_logs.usage.reader import read_usage

_CALLS: Final = ("$ai_generation", "$ai_embedding", None)
_CACHE: Final = ("reads", "writes")
_TRUE: Final = (True, "true", "True", 1)
_FALSE: Final = (False, "false", "False", 0)


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    noted = row.inner("properties") if "properties" in row else row
    if row.get("event") not in _CALLS:
        yield NO_USAGE
    elif noted.get("$ai_is_error") in _TRUE:
        yield FAILED
    else:
        # What the input leaves out; None if the counts have to say.
        leaves_out: tuple[str, ...] | None
        flag = noted.get("$ai_cache_reporting_exclusive")
        if flag in _TRUE:
            leaves_out = _CACHE
        elif flag is not None and flag in _FALSE:
            leaves_out = ()
        else:
            is_anthropic = lower_name(noted.get("$ai_provider")) == "anthropic"
            leaves_out = (
                _CACHE if is_anthropic or "claude" in str(noted.get("$ai_model")).lower() else None
            )
        readings = read_usage(
            token_members(noted, others=("$ai_total_cost_usd", "$ai_web_search_count")),
            dialect="posthog",
            leaves_out=leaves_out,
            may_lack_output=True,
        )
        if not readings:
            yield NO_USAGE
        else:
            seconds = noted.get("$ai_latency")
            yield Sighting(
                readings=readings,
                moments=(row.get("timestamp"), row.get("ts"), noted.get("timestamp")),
                models=(noted.get("$ai_model"),),
                providers=(lower_name(noted.get("$ai_provider")),),
                origin=ROW,
                ids=(
                    answer_id(noted.get("$ai_span_id")),
                    row.get("uuid"),
                    noted.get("$ai_generation_id"),
                    noted.get("$ai_span_id"),
                ),
                tags=(row.get("tag"), noted.get("$ai_span_name")),
                session=noted.first("$ai_session_id", "$ai_trace_id"),
                latency_ms=seconds * 1_000 if type(seconds) in (int, float) else None,
                caps=(noted.get("$ai_max_tokens"),),
                prompts=(parsed(noted.get("$ai_input")),),
            )


_NOTED: Final = (
    "$ai_model $ai_provider $ai_trace_id $ai_session_id $ai_span_id $ai_span_name $ai_parent_id "
    "$ai_generation_id $ai_framework $ai_lib $ai_lib_version $ai_base_url $ai_request_url "
    "$ai_stop_reason $ai_is_error $ai_stream $ai_cache_reporting_exclusive "
    "$ai_model_parameters* $ai_usage* timestamp distinct_id"
)

ADAPTER: Final = Adapter(
    title="PostHog generations",
    signs=("properties", "$ai_model", "$ai_input_tokens", "$ai_provider"),
    recognizes=lambda row: (
        any(name.startswith("$ai_") for name in row.names())
        or ("properties" in row and not row.has("properties") and "event" in row)  # a header
        or row.mentions("properties", "$ai_model", "$ai_provider", "$ai_trace_id")
    ),
    read=_read,
    allowed=members(
        f"{_NOTED} uuid event ts distinct_id person_id team_id created_at inserted_at "
        f"_inserted_at tag properties({_NOTED})"
    ),
)
