"""Traffic without waste: several routes at once, as large as asked for, over one week."""

from datetime import UTC, datetime
from typing import Final

import numpy as np
import polars as pl

START: Final = datetime(2026, 10, 5, tzinfo=UTC)
WEEK_US: Final = 7 * 86_400_000_000

# At the foot of their ladders: nothing cheaper is sold.
_MODELS: Final = (
    ("openai", "gpt-5.4-nano"),
    ("openai", "gpt-5-nano"),
    ("google", "gemini-2.5-flash-lite"),
    ("anthropic", "claude-haiku-4-5"),
)
_ASSISTANTS: Final = 8  # routes with long answers; two more classify
_HEAD_TOKENS: Final = 4_224  # what an assistant's prompts have in common, and read from the cache


def clean_calls(count: int, seed: int) -> pl.DataFrame:
    """Nine calls in ten are assistants' with cached prompts, the others' are short labels."""
    rng = np.random.default_rng(seed)
    assisted = int(count * 0.9)
    frame = pl.concat([_assistants(rng, assisted), _classifiers(rng, count - assisted)])
    return frame.with_columns(at_times(rng.integers(0, WEEK_US, count)))


def at_times(microseconds: np.ndarray) -> pl.Series:
    """Times so long after the start."""
    instants = microseconds.astype("int64") + int(START.timestamp() * 1_000_000)
    return pl.Series("ts", instants).cast(pl.Datetime("us", "UTC"))


def hashes(numbers: np.ndarray, salt: int) -> pl.Series:
    """A prefix hash for each number."""
    texts = [f"{salt:04x}{number:012x}{0:048x}" for number in numbers.tolist()]
    return pl.Series("prefix_hash", texts, pl.String)


def _assistants(rng: np.random.Generator, count: int) -> pl.DataFrame:
    """Long answers to long prompts, the head of each route's read from the cache."""
    route = rng.integers(0, _ASSISTANTS, count)
    return pl.DataFrame(
        {
            **_labels(route, "assistant"),
            "prompt_tokens": rng.integers(4_600, 7_000, count),
            "completion_tokens": rng.integers(300, 1_900, count),
            "cached_tokens": np.full(count, _HEAD_TOKENS),
            "cache_write_tokens": np.zeros(count, dtype="int64"),
            "declared_max_tokens": np.full(count, 4_096),
            "prefix_hash": hashes(route, 1),
        }
    )


def _classifiers(rng: np.random.Generator, count: int) -> pl.DataFrame:
    """Labels of some tokens for texts that are never the same."""
    route = rng.integers(0, 2, count)
    return pl.DataFrame(
        {
            **_labels(route, "classifier"),
            "prompt_tokens": rng.integers(600, 1_000, count),
            "completion_tokens": rng.integers(1, 16, count),
            "cached_tokens": np.zeros(count, dtype="int64"),
            "cache_write_tokens": np.zeros(count, dtype="int64"),
            "declared_max_tokens": np.full(count, 16),
            "prefix_hash": hashes(np.arange(count), 2),
        }
    )


def _labels(route: np.ndarray, name: str) -> dict[str, list[str]]:
    numbers = route.tolist()
    models = [_MODELS[number % len(_MODELS)] for number in numbers]
    return {
        "provider": [provider for provider, _ in models],
        "model": [model for _, model in models],
        "tag": [f"{name}-{number}" for number in numbers],
    }
