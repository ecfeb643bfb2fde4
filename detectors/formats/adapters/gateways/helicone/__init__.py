"""Helicone: requests, as its export tool writes them (JSON Lines, JSON, CSV) or its API returns.

Fields: `HeliconeRequest`, at https://docs.helicone.ai/rest/request/post-v1requestquery-clickhouse,
and the columns of https://github.com/Helicone/helicone/tree/main/examples/export/typescript. Counts
are those of the provider: for Anthropic, `prompt_tokens` exclude the cached ones
(`AnthropicBodyProcessor` of the same repository). A call with `cache_reference_id` was answered
from Helicone's own cache.
"""

from collections.abc import Iterator
from typing import Final

from detectors.formats.adapters.adapter import Adapter, State, members
from detectors.formats.adapters.calls import CACHE_HIT, FAILED, NO_USAGE, ROW, Sighting
from detectors.formats.adapters.exchanges import PROMPTS, caps_of
from detectors.formats.adapters.labels import lower_name
from detectors.formats.adapters.rows import Row, token_members
from detectors.formats.json_logs.usage.reader import read_usage

_NOT_CACHED: Final = (None, "", "00000000-0000-0000-0000-000000000000")


def _read(row: Row, state: State) -> Iterator[Sighting | str]:
    status = row.get("response_status")
    if row.get("cache_reference_id") not in _NOT_CACHED:
        yield CACHE_HIT
    elif type(status) is int and not 200 <= status < 300:
        yield FAILED
    else:
        provider, model = row.get("provider"), row.first("response_model", "model", "request_model")
        readings = read_usage(
            token_members(row),
            dialect="chat",
            leaves_out=("reads", "writes") if provider == "ANTHROPIC" else None,
        )
        if not readings:
            yield NO_USAGE
        else:
            asked, answered = row.inner("request_body"), row.inner("response_body")
            said = read_usage(
                answered.get("usage"), provider=lower_name(provider) or "", model=model
            )
            counts = readings[0].prompt, readings[0].completion
            if said and said[0].prompt >= counts[0] and said[0].completion >= counts[1]:
                readings = said  # which says more of the same, such as the steps of an answer
            notes = row.inner(
                "request_properties" if row.has("request_properties") else "properties"
            )
            yield Sighting(
                readings=readings,
                moments=(row.get("request_created_at"), row.get("response_created_at")),
                models=(model, row.get("request_model")),
                providers=(lower_name(provider),),
                origin=ROW,
                ids=(
                    answered.first("id", "responseId"),
                    row.get("request_id"),
                    row.get("response_id"),
                ),
                tags=(notes.get("Helicone-Session-Name"), row.get("prompt_id"), notes.get("tag")),
                session=notes.get("Helicone-Session-Id"),
                environment=notes.get("environment"),
                endpoint=row.get("request_path"),
                reported_usd=row.first("cost", "costUSD"),
                latency_ms=row.first("delay_ms", "latency"),
                caps=caps_of(asked),
                prompts=tuple(map(asked.get, PROMPTS)),
            )


ADAPTER: Final = Adapter(
    title="Helicone requests",
    signs=("request_created_at",),
    recognizes=lambda row: (
        "request_created_at" in row and ("prompt_tokens" in row or "response_id" in row)
    ),
    read=_read,
    allowed=members(
        "response_id response_created_at response_status response_model request_id "
        "request_created_at request_path request_user_id request_model model_override model "
        "helicone_user provider prompt_id feedback_created_at feedback_id country_code "
        "request_body(model max_tokens max_completion_tokens max_output_tokens) "
        "cache_reference_id request_properties* properties* scores* target_url"
    ),
)
