"""Calls from the values of OpenAI-style lines: what `formats.json_logs.openai` makes of them.

Lines with a value that needs the contract's exact reader are left to it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from detectors.contract import LEVEL_DIGITS, LEVELS, MAX_COUNT, MAX_LABEL_LENGTH, MAX_LATENCY_MS
from detectors.formats.checks import are_prefix_hashes, is_provider
from detectors.formats.columns import HASHES, WRITTEN_LABELS, empty_value
from detectors.formats.fields import SERVICE_TIERS
from detectors.formats.json_logs.usage.reader import STANDARD_TIERS
from detectors.formats.moments import FIRST_MICROSECOND, LAST_MICROSECOND, SECOND_US
from detectors.frames.uniform.form import Key, NoFormError
from detectors.frames.usage_log import CALLS

PROVIDER: Final = "openai"
_CONTROL: Final = r"[\x00-\x1f\x7f-\x9f]"
_LEVEL: Final = f"[0-9a-f]{{{LEVEL_DIGITS}}}"
# As they are in a line, without the first and the last quote.
_LEVELS: Final = f'^{_LEVEL}(?:", ?"{_LEVEL}){{0,{len(LEVELS) - 1}}}$'
_BETWEEN_LEVELS: Final = ('","', '", "')
_MOMENTS: Final = ("ts", "created", "created_at")
_INPUT: Final = ("usage.prompt_tokens", "usage.input_tokens")
_OUTPUT: Final = ("usage.completion_tokens", "usage.output_tokens")
_INPUT_DETAILS: Final = ("usage.prompt_tokens_details", "usage.input_tokens_details")
_OUTPUT_DETAILS: Final = ("usage.completion_tokens_details", "usage.output_tokens_details")
_READ: Final = frozenset(
    {
        *_MOMENTS,
        *_INPUT,
        *_OUTPUT,
        *(f"{details}.cached_tokens" for details in _INPUT_DETAILS),
        *(f"{details}.cache_write_tokens" for details in _INPUT_DETAILS),
        *(f"{details}.reasoning_tokens" for details in _OUTPUT_DETAILS),
        "declared_max_tokens",
    }
)
_REASONING: Final = tuple(f"{details}.reasoning_tokens" for details in _OUTPUT_DETAILS)
_TOTAL: Final = "usage.total_tokens"
# Labels of lines that don't have them.
_ABSENT: Final = {
    "provider": PROVIDER,
    **dict.fromkeys(("endpoint", "tag", "prefix_hash", "service_tier"), ""),
}
_OPTIONAL_LABELS: Final = ("environment", "session_id", "region")
_TEXTS: Final = frozenset(
    {
        *("provider", "model", "endpoint", "request_id", "id", "tag", "prefix_hash"),
        *("service_tier", "object", "system_fingerprint"),
        *_OPTIONAL_LABELS,
    }
)
# Counts that no call gets a value from. Any other count must be zero.
_UNUSED: Final = frozenset(
    {
        _TOTAL,
        *(f"{details}.text_tokens" for details in (*_INPUT_DETAILS, *_OUTPUT_DETAILS)),
    }
)


def make_calls(
    values: pl.DataFrame, keys: Sequence[Key], *, has_categories: bool = False
) -> pl.DataFrame:
    """Return the calls of these lines, as `CALLS` and columns of `OPTIONAL_CALLS`.

    With `has_categories`, labels that no line has are categories, which are written faster.
    `NoFormError` if a call may be invalid, or needs a rule that is not here.
    """
    given = {key.path for key in keys}
    for pair in (_INPUT_DETAILS, _OUTPUT_DETAILS):
        _require(not set(pair) <= set(values.columns))
    for key in keys:
        if key.kind == "count":
            least, most = values[key.path].min(), values[key.path].max()
            limit = MAX_COUNT if key.path in _READ | _UNUSED else 0
            _require(least is None or (least >= 0 and most <= limit))  # type: ignore[operator]
    for key in keys:
        if key.kind == "hashes":
            _require(key.path == HASHES and values[HASHES].str.contains(_LEVELS).all())
            if "prefix_hash" in given:
                own = pl.col("prefix_hash").str.to_lowercase().str.head(LEVEL_DIGITS)
                is_other = (own != "") & (own != pl.col(HASHES).str.head(LEVEL_DIGITS))
                _require(not values.select(is_other.any()).item())
        if key.kind == "text":
            _check_texts(values[key.path], key.path)
    calls = values.select(*_columns(given))
    first, last = FIRST_MICROSECOND // SECOND_US, LAST_MICROSECOND // SECOND_US
    required = ("ts", "prompt_tokens", "completion_tokens")
    _require(not any(calls[name].null_count() for name in required))
    _require(calls["ts"].is_between(first, last, closed="left").all())
    latencies = calls["latency_ms"]
    _require((latencies.max() or 0.0) <= MAX_LATENCY_MS)  # type: ignore[operator]
    if has_categories:
        constant = {name: text for name, text in _ABSENT.items() if name not in given}
        calls = calls.with_columns(
            pl.lit(text).cast(pl.Categorical()).alias(name) for name, text in constant.items()
        )
    # Otherwise the prompt may exclude what was read and written, as the exact reader decides.
    cached = calls["cached_tokens"] + calls["cache_write_tokens"]
    _require((cached <= calls["prompt_tokens"]).all())
    instants = (pl.col("ts") * SECOND_US).cast(CALLS["ts"])
    paths = {"reasoning_tokens": _count(_REASONING, given)}
    paths |= {name: _text((name,), given) for name in _OPTIONAL_LABELS if name in given}
    if HASHES in given:
        hashes = pl.col(HASHES).fill_null("")
        for between in _BETWEEN_LEVELS:
            hashes = hashes.str.replace_all(between, "", literal=True)
        paths[HASHES] = hashes
    found = [values.select(value.alias(name)).to_series() for name, value in paths.items()]
    if (found[0] > 0).any():
        total = pl.col(_TOTAL) if _TOTAL in given else pl.lit(None, pl.Int64)
        totals, reasoning = values.select(total.alias("total")).to_series(), found[0]
        # Part of the answers, as nearly all providers count them.
        counted = calls["prompt_tokens"] + calls["completion_tokens"]
        is_apart = (totals == counted + reasoning).fill_null(value=False)
        is_part = (reasoning <= calls["completion_tokens"]) & ~is_apart
        _require(((reasoning == 0) | is_part).all())
    optional = [each for each in found if (each != empty_value(each.name)).any()]
    return calls.with_columns(instants, *optional)


def _columns(given: set[str]) -> Iterator[pl.Expr]:
    yield _first(_MOMENTS, given).alias("ts")
    yield _text(("provider",), given, PROVIDER).str.to_lowercase().alias("provider")
    yield pl.col("model")
    yield _text(("endpoint",), given).alias("endpoint")
    yield _text(("request_id", "id"), given).alias("request_id")
    yield _text(("tag",), given).alias("tag")
    yield _text(("prefix_hash",), given).str.to_lowercase().alias("prefix_hash")
    yield _first(_INPUT, given).alias("prompt_tokens")
    yield _first(_OUTPUT, given).alias("completion_tokens")
    for name in ("cached_tokens", "cache_write_tokens"):
        yield _count([f"{details}.{name}" for details in _INPUT_DETAILS], given).alias(name)
    yield _count(("declared_max_tokens",), given).alias("declared_max_tokens")
    latency = pl.col("latency_ms") if "latency_ms" in given else pl.lit(None)
    yield latency.cast(pl.Float64).alias("latency_ms")
    tier = pl.lit("")
    if "service_tier" in given:
        named = pl.col("service_tier")
        tier = pl.when(named.is_in(SERVICE_TIERS)).then(named).otherwise(tier)
    yield tier.alias("service_tier")


def _require(condition: object) -> None:
    if not condition:
        raise NoFormError


def _check_texts(texts: pl.Series, path: str) -> None:
    _require(path in _TEXTS)
    # Most texts are few labels; IDs differ, and are checked as they are.
    few = texts if path in ("id", "request_id") else texts.unique()
    _require((few.str.len_bytes().max() or 0) <= MAX_LABEL_LENGTH)  # type: ignore[operator]
    _require(not few.str.contains(_CONTROL).any())
    if path in WRITTEN_LABELS:
        _require((few.str.normalize("NFC") == few).all())
    if path == "service_tier":
        _require(STANDARD_TIERS.issuperset(set(few.drop_nulls()) - {*SERVICE_TIERS}))
    if path == "prefix_hash":
        hashes = few.drop_nulls().to_list()
        _require(all(map(len, hashes)) and are_prefix_hashes(hashes))
        _require(all(len(text) == 64 for text in hashes))
    if path == "provider":
        _require(all(is_provider(text.lower()) for text in few.drop_nulls() if text))
    if path == "model":
        _require(few.null_count() == 0 and (few != "").all())


def _first(paths: Sequence[str], given: set[str]) -> pl.Expr:
    """Return the first value that is not null."""
    columns = [pl.col(path) for path in paths if path in given]
    return pl.coalesce(columns) if columns else pl.lit(None, pl.Int64)


def _count(paths: Sequence[str], given: set[str]) -> pl.Expr:
    columns = [pl.col(path) for path in paths if path in given]
    return pl.coalesce(*columns, pl.lit(0, pl.Int64))


def _text(paths: Sequence[str], given: set[str], otherwise: str = "") -> pl.Expr:
    """Return the first text that is not empty."""
    text: pl.Expr = pl.lit(otherwise)
    for path in reversed([path for path in paths if path in given]):
        column = pl.col(path)
        is_given = column.is_not_null() & (column != "")
        text = pl.when(is_given).then(column).otherwise(text)
    return text
