"""The names that other tools give to their columns, and the mapping proposed from them.

A proposal is only shown: nobody's columns are mapped or dropped without being named.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from detectors.contract import REQUIRED_FIELDS
from detectors.formats.columns import TABLE_FIELDS

# Prompt tokens without those read from the cache or written to it, as Anthropic counts them.
UNCACHED: Final = "uncached_prompt_tokens"
# The provider of calls whose models name it.
BY_MODEL: Final = "by-model"
TARGETS: Final = (*TABLE_FIELDS, UNCACHED)
# Other tools' names of each field, the best first, in lower case with underscores.
SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ts": (
            *("timestamp", "created_at", "createdat", "start_time", "starttime", "started_at"),
            *("request_time", "requested_at", "event_time", "datetime", "datetime_utc", "time"),
            *("created", "date_time", "timegenerated", "time_generated", "timegenerated_utc"),
            *("time_generated_utc", "logged_at", "occurred_at", "date", "startedat", "start_ns"),
        ),
        "provider": (
            *("model_provider", "provider_name", "custom_llm_provider", "llm_provider"),
            *("ai_provider", "gen_ai_provider_name", "gen_ai_system", "ls_provider"),
        ),
        "model": (
            *("model_name", "modelname", "model_id", "modelid", "response_model", "request_model"),
            *("gen_ai_response_model", "gen_ai_request_model", "provided_model_name"),
            *("providedmodelname", "model_permaslug", "llm_model", "resolved_model", "main_model"),
            "ls_model_name",
        ),
        "prompt_tokens": (
            *("input_tokens", "tokens_prompt", "prompttokens", "inputtokens", "tokens_in"),
            *("input_inputtokencount", "input_token_count", "inputtokencount"),
            *("prompt_token_count", "tokens_input"),
            *("usage_prompt_tokens", "usage_input_tokens", "gen_ai_usage_input_tokens"),
            *("gen_ai_usage_prompt_tokens", "total_input_tokens", "num_input_tokens", "req_units"),
            *("context_tokens", "contexttokens", "tokensin", "message_tokens"),
            "prompt_eval_count",
        ),
        "completion_tokens": (
            *("output_tokens", "tokens_completion", "completiontokens", "outputtokens"),
            *("tokens_out", "output_outputtokencount", "output_token_count"),
            *("outputtokencount", "completion_token_count"),
            *("tokens_output", "usage_completion_tokens", "usage_output_tokens"),
            *("gen_ai_usage_output_tokens", "gen_ai_usage_completion_tokens"),
            *("total_output_tokens", "num_output_tokens", "generated_tokens", "res_units"),
            *("generatedtokens", "tokensout", "answer_tokens", "eval_count"),
        ),
        "cached_tokens": (
            *("cache_read_input_tokens", "cachereadinputtokens", "cachereadinputtokencount"),
            *("input_cachereadinputtokencount", "cached_input_tokens"),
            *("cache_read_tokens", "input_cached_tokens"),
            *("cached_prompt_tokens", "prompt_cached_tokens", "tokens_cached", "cache_read"),
            *("cachereadtokens", "cachedtokens", "cachedinputtokens", "cachereads"),
            *("usage_cache_read_input_tokens", "gen_ai_usage_cache_read_input_tokens"),
        ),
        "cache_write_tokens": (
            *("cache_creation_input_tokens", "cachewriteinputtokens", "cachewriteinputtokencount"),
            *("input_cachewriteinputtokencount", "cache_write_input_tokens"),
            *("cache_creation_tokens", "cachewritetokens", "cachecreationtokens"),
            *("cache_write", "input_w_cache_write", "cachewrites"),
            *("usage_cache_creation_input_tokens", "gen_ai_usage_cache_creation_input_tokens"),
        ),
        "latency_ms": (
            *("duration_ms", "request_duration_ms", "response_time_ms", "latencyms", "durationms"),
            "elapsed_ms",
        ),
        "endpoint": ("api_endpoint", "call_type", "url_path", "gen_ai_operation_name"),
        "request_id": (
            *("requestid", "generation_id", "response_id", "completion_id", "call_id", "id"),
        ),
        "tag": (
            *("app_name", "app", "application", "service_name", "service", "feature"),
            *("project_name", "project", "api_key_name", "team"),
        ),
        "declared_max_tokens": ("max_tokens", "max_output_tokens", "max_completion_tokens"),
        "reasoning_tokens": ("tokens_reasoning", "reasoning_output_tokens", "thinking_tokens"),
        "service_tier": ("tier",),
        "environment": ("env", "deployment_environment", "deployment_environment_name"),
        "session_id": ("sessionid", "conversation_id", "thread_id", "trace_id", "traceid"),
        "region": ("aws_region", "awsregion"),
    }
)
# With one of these beside it, a count of input tokens is without the cached ones.
BESIDE_UNCACHED: Final = frozenset(
    (
        *("cache_read_input_tokens", "cachereadinputtokens", "cachereadinputtokencount"),
        *("cache_creation_input_tokens", "cachewriteinputtokens", "cachewriteinputtokencount"),
        *("input_cachereadinputtokencount", "input_cachewriteinputtokencount"),
        *("usage_cache_read_input_tokens", "usage_cache_creation_input_tokens"),
    )
)
# What exports call their columns of text.
TEXT_COLUMNS: Final = frozenset(
    (
        *("answer", "arguments", "body", "choices", "completion", "content", "delta"),
        *("error_message", "input", "input_text", "instructions", "message", "messages"),
        *("metadata", "output", "output_text", "prompt", "prompts", "query", "question"),
        *("request", "request_body", "response", "response_body", "response_text", "result"),
        *("system", "system_prompt", "text", "tool_calls", "tools", "user_message"),
    )
)
# What exports call columns that no audit needs: costs, which are calculated here, and addresses.
UNNEEDED_COLUMNS: Final = frozenset(
    (
        *("cost", "costs", "cost_usd", "costs_usd", "total_cost", "total_cost_usd", "usd_cost"),
        *("input_cost", "output_cost", "prompt_cost", "completion_cost", "usage_cost"),
        *("price", "price_usd", "spend", "spend_usd", "amount", "amount_usd", "currency"),
        *("email", "e_mail", "mail", "email_address", "user_email", "useremail", "user_mail"),
        *("customer_email", "member_email", "owner_email", "account_email"),
    )
)
# Columns that hold a usage object as JSON.
USAGE_COLUMNS: Final = frozenset(("usage", "usage_metadata", "usagemetadata", "token_usage"))
# Spreadsheets write tabs in some formats, and semicolons where a comma is the decimal point.
DELIMITERS: Final = (",", "\t", ";")
_LEAST_FIELDS: Final = 2
MAX_COLUMNS: Final = 1_000  # that can be mapped
_NOT_A_WORD: Final = re.compile(r"[^a-z0-9]+")


class ProposedColumn(NamedTuple):
    name: str
    field: str
    is_text: bool = False


def plain(name: str) -> str:
    """Return the name in lower case with underscores: `Input Tokens` is `input_tokens`."""
    return _NOT_A_WORD.sub("_", name.lower()).strip("_")


def is_text_column(name: str) -> bool:
    return plain(name) in TEXT_COLUMNS


def propose(cells: Sequence[str]) -> list[ProposedColumn]:
    names = [plain(cell) for cell in cells]
    fields = [""] * len(cells)
    first = {name: index for index, name in reversed(list(enumerate(names)))}
    for field in TABLE_FIELDS:
        index = next(
            (first[name] for name in (field, *SYNONYMS.get(field, ())) if name in first), None
        )
        if index is not None and not fields[index]:
            fields[index] = field
    if not BESIDE_UNCACHED.isdisjoint(names):
        fields = [
            UNCACHED if field == "prompt_tokens" and "input" in name else field
            for field, name in zip(fields, names, strict=True)
        ]
    return [
        ProposedColumn(cell, field, name in TEXT_COLUMNS)
        for cell, field, name in zip(cells, fields, names, strict=True)
    ]


def find_foreign_header(line: str) -> list[str]:
    """Return the header of a CSV whose names suggest fields; empty for any other text."""
    for delimiter in DELIMITERS:
        cells = parse_header(line, delimiter)
        if not _LEAST_FIELDS < len(cells) <= MAX_COLUMNS:
            continue
        found = {column.field for column in propose(cells)} - {""}
        has_counts = len(found) > _LEAST_FIELDS and found & {*REQUIRED_FIELDS[2:], UNCACHED}
        # A model and counts under longer names, such as those of spans.
        names = list(map(plain, cells))
        counts = sum("token" in name for name in names)
        has_paths = counts >= _LEAST_FIELDS and any("model" in name for name in names)
        if has_counts or has_usage(cells) or has_paths:
            return cells
    return []


def has_usage(cells: Sequence[str]) -> bool:
    """Check a header for a column of usage objects, as JSON, beside the models."""
    names = set(map(plain, cells))
    return "model" in names and not USAGE_COLUMNS.isdisjoint(names)


def delimiter_of(line: str) -> str:
    """Return the delimiter that splits a header into the most cells."""
    return max(DELIMITERS, key=lambda delimiter: len(header_cells(line, delimiter)))


def parse_header(line: str, delimiter: str) -> list[str]:
    """Return the cells of a header line in lower case; none if it is not CSV."""
    return [cell.lower() for cell in header_cells(line, delimiter)]


def header_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a header line as they are; none if it is not CSV."""
    try:
        cells = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []
    return [cell.strip() for cell in cells]
