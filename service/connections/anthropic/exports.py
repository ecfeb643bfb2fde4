"""The two CSV exports of Anthropic's Console, usage and costs, and the API's JSON of both.

The files of costs have names of models and workspaces as the Console shows them.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from service.connections.anthropic.reports import read_cost, read_region
from service.connections.exports import Cells, Export, count_of, day_of, pick, signs, usd_of
from service.connections.provider import TOKENS, CostLine, TotalsLine, UsageLine, clean

_DAY: Final = ("usage_date_utc", "usage_hour_utc", "usage_datetime_utc", "starting_at")
_STANDARD: Final = ("standard", "message")
_KINDS: Final[Mapping[str, str]] = {"token": TOKENS, "tokens": TOKENS, "": TOKENS}


def _read_usage(cells: Cells) -> Iterator[TotalsLine]:
    short = count_of(
        cells, "usage_input_tokens_cache_write_5m", "cache_creation_ephemeral_5m_input_tokens"
    )
    long = count_of(
        cells, "usage_input_tokens_cache_write_1h", "cache_creation_ephemeral_1h_input_tokens"
    )
    cached = count_of(cells, "usage_input_tokens_cache_read", "cache_read_input_tokens")
    searches = count_of(cells, "web_search_count", "server_tool_use_web_search_requests")
    uncached = count_of(cells, "usage_input_tokens_no_cache", "uncached_input_tokens")
    tier = clean(pick(cells, "usage_type", "service_tier")).lower()
    window = pick(cells, "context_window")
    context = "200k-1M" if window.startswith((">", "200k-")) else "0-200k"
    yield UsageLine(
        bucket=day_of(cells, *_DAY),
        project_id=_workspace(cells),
        key_id=clean(pick(cells, "api_key", "api_key_id")),
        model=clean(pick(cells, "model_version", "model")),
        tier="" if tier in _STANDARD else tier,
        context=context if window else "",
        region=read_region(cells.get("inference_geo")),
        prompt_tokens=uncached + short + long + cached,
        completion_tokens=count_of(cells, "usage_output_tokens", "output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=short + long,
        cache_write_1h_tokens=long,
        units={"web_searches": searches} if searches else {},
    )


def _read_cost(cells: Cells) -> Iterator[TotalsLine]:
    kind = pick(cells, "cost_type").lower()
    kind = _KINDS.get(kind, kind)
    model, token_type = clean(cells.get("model")), clean(cells.get("token_type"))
    listed = usd_of(cells, "list_price_usd") if pick(cells, "list_price_usd") else None
    yield CostLine(
        bucket=day_of(cells, *_DAY),
        project_id=_workspace(cells),
        key_id=clean(pick(cells, "api_key", "api_key_id")),
        line_item=clean(f"{model} {token_type}"),
        kind=clean(kind),
        # "Claude Haiku 4.5" is claude-haiku-4-5.
        model=model.lower().replace(" ", "-").replace(".", "-") if kind == TOKENS else "",
        amount=usd_of(cells, "cost_usd"),
        list_amount=listed,
    )


def _read_page(cells: Cells) -> Iterator[TotalsLine]:
    yield read_cost(day_of(cells, *_DAY), cells)


def _workspace(cells: Cells) -> str:
    shown = clean(pick(cells, "workspace", "workspace_id"))
    return "" if shown.lower() == "default" else shown


EXPORTS: Final = (
    Export(
        provider="anthropic",
        name="usage_by_hand",
        what="Anthropic's usage by day",
        signs=signs(
            "model_version,usage_input_tokens_no_cache,usage_output_tokens",
            "starting_at,uncached_input_tokens,output_tokens",
        ),
        read=_read_usage,
    ),
    Export(
        provider="anthropic",
        name="costs_by_hand",
        what="Anthropic's costs by day",
        signs=signs("usage_date_utc,token_type,cost_usd"),
        read=_read_cost,
    ),
    Export(
        provider="anthropic",
        name="costs_by_hand",
        what="Anthropic's costs by day",
        signs=signs("starting_at,amount,currency"),
        read=_read_page,
    ),
)
