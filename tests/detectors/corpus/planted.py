"""Waste of known dollars, one kind at a time: calls to be put among clean ones.

The dollars are calculated from published prices, by hand and not by the library.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from tests.detectors.corpus.clean import WEEK_US, at_times, hashes

SECOND_US: Final = 1_000_000
MEDIAN_CLEAN_PROMPT: Final = 5_799.5  # of the assistants, whose prompts are 4,600 to 6,999 tokens


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens."""

    provider: str
    model: str
    input: float
    output: float
    cache_read: float
    cache_write: float


GPT: Final = Price("openai", "gpt-5.4", 2.5, 15, 0.25, 2.5)
MINI: Final = Price("openai", "gpt-5.4-mini", 0.75, 4.5, 0.075, 0.75)
NANO: Final = Price("openai", "gpt-5.4-nano", 0.2, 1.25, 0.02, 0.2)
OPUS: Final = Price("anthropic", "claude-opus-4-8", 5, 25, 0.5, 6.25)
OPUS_HOUR_WRITE: Final = 10


@dataclass(frozen=True)
class Planted:
    """Calls that waste so many dollars in a way that one detector is for."""

    calls: pl.DataFrame
    usd: float


@dataclass(frozen=True)
class Plant:
    detector: str
    kind: str
    sow: Callable[[int, np.random.Generator], Planted]


def _calls(price: Price, times: np.ndarray, **columns: Any) -> pl.DataFrame:
    """Calls of the planted route; what is not given is 0 or absent."""
    count = len(times)
    counts = {
        name: np.broadcast_to(np.asarray(columns.get(name, 0), dtype="int64"), count)
        for name in (
            "prompt_tokens",
            "completion_tokens",
            "cached_tokens",
            "cache_write_tokens",
            "declared_max_tokens",
        )
    }
    labels = {
        "provider": [price.provider] * count,
        "model": [price.model] * count,
        "tag": columns.get("tag", ["planted"] * count),
        "prefix_hash": columns.get("prefix_hash", pl.Series([None] * count, dtype=pl.String)),
    }
    return pl.DataFrame({**labels, **counts}).with_columns(at_times(times))


def _sometime(count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, WEEK_US, count)


def _regularly(count: int) -> np.ndarray:
    """A minute apart, or as far as the week allows."""
    return np.arange(count) * min(60 * SECOND_US, WEEK_US // count)


def short_answers(count: int, rng: np.random.Generator) -> Planted:
    prompt, answer = rng.integers(700, 1_000, count), rng.integers(20, 101, count)
    usd = prompt.sum() * (GPT.input - MINI.input) + answer.sum() * (GPT.output - MINI.output)
    calls = _calls(GPT, _sometime(count, rng), prompt_tokens=prompt, completion_tokens=answer)
    return Planted(calls, usd / 1e6)


def uncached_prefix(count: int, rng: np.random.Generator) -> Planted:
    """1,024 tokens alike in every call: the first would have written them, the others read."""
    calls = _calls(
        GPT,
        _regularly(count),
        prompt_tokens=rng.integers(2_000, 6_000, count),
        completion_tokens=rng.integers(500, 1_900, count),
        prefix_hash=hashes(np.zeros(count, dtype="int64"), 3),
    )
    return Planted(calls, (count - 1) * 1_024 * (GPT.input - GPT.cache_read) / 1e6)


def expired_writes(count: int, rng: np.random.Generator) -> Planted:
    """Jobs that write a prompt every seven minutes: an hour would have kept it."""
    number, each = np.arange(count), 1_400  # so many calls of one route have room in a week
    written = 3_000
    calls = _calls(
        OPUS,
        (number % each) * (420 * SECOND_US),
        prompt_tokens=5_000,
        completion_tokens=rng.integers(500, 1_900, count),
        cache_write_tokens=written,
        prefix_hash=hashes(number // each, 6),
        tag=[f"planted-{route}" for route in (number // each).tolist()],
    )
    routes = -(-count // each)
    reads = (count - routes) * (OPUS.cache_write - OPUS.cache_read)
    return Planted(calls, written * (reads - routes * (OPUS_HOUR_WRITE - OPUS.cache_write)) / 1e6)


def unread_writes(count: int, rng: np.random.Generator) -> Planted:
    """Other prompts each time, written to the cache at a surcharge and never read."""
    written = rng.integers(2_000, 4_000, count)
    calls = _calls(
        OPUS,
        _sometime(count, rng),
        prompt_tokens=5_000,
        completion_tokens=rng.integers(500, 1_900, count),
        cache_write_tokens=written,
        prefix_hash=hashes(np.arange(count), 7),
    )
    return Planted(calls, written.sum() * (OPUS.cache_write - OPUS.input) / 1e6)


def oversized_prompts(count: int, rng: np.random.Generator) -> Planted:
    """A route whose prompts are normal in three calls of five, and huge in the others."""
    is_huge = np.arange(count) % 5 >= 3
    huge, usual = rng.integers(30_000, 60_000, count), rng.integers(4_600, 5_000, count)
    calls = _calls(
        NANO,
        _sometime(count, rng),
        prompt_tokens=np.where(is_huge, huge, usual),
        completion_tokens=rng.integers(512, 1_024, count),
    )
    return Planted(calls, 0.5 * (huge - MEDIAN_CLEAN_PROMPT)[is_huge].sum() * NANO.input / 1e6)


def same_prompt(count: int, rng: np.random.Generator) -> Planted:
    return _bursts(count, rng, 200, 800, hashed=True)


def same_shape(count: int, rng: np.random.Generator) -> Planted:
    return _bursts(count, rng, 2_000, 4_000, hashed=False)


def _bursts(
    count: int, rng: np.random.Generator, shortest: int, longest: int, *, hashed: bool
) -> Planted:
    """Bursts of four equal calls, five seconds apart: three of each are too many."""
    bursts = count // 4
    starts = np.arange(bursts) * (WEEK_US // bursts)
    times = np.repeat(starts, 4) + np.tile(np.arange(4) * 5 * SECOND_US, bursts)
    prompt, answer = rng.integers(shortest, longest, bursts), rng.integers(150, 900, bursts)
    hash_columns = {"prefix_hash": hashes(np.repeat(np.arange(bursts), 4), 4)} if hashed else {}
    calls = _calls(
        NANO,
        times,
        prompt_tokens=np.repeat(prompt, 4),
        completion_tokens=np.repeat(answer, 4),
        **hash_columns,
    )
    return Planted(calls, 3 * (prompt.sum() * NANO.input + answer.sum() * NANO.output) / 1e6)


def cut_answers(count: int, rng: np.random.Generator) -> Planted:
    """Answers cut off, thrown away and asked for again without a limit, ten seconds later."""
    cut = count // 2
    prompt, starts = rng.integers(2_000, 6_000, cut), np.arange(cut) * (WEEK_US // cut)
    calls = _calls(
        NANO,
        np.concatenate([starts, starts + 10 * SECOND_US]),
        prompt_tokens=np.tile(prompt, 2),
        completion_tokens=np.repeat([600, 800], cut),
        declared_max_tokens=np.repeat([600, 0], cut),
    )
    return Planted(calls, (prompt.sum() * NANO.input + cut * 600 * NANO.output) / 1e6)


def loops(count: int, rng: np.random.Generator) -> Planted:
    """Sessions of twenty calls, ten seconds apart: of each five, four repeat the instructions."""
    sessions, each = count // 20, 300  # so many sessions of one route have room in a week
    number = np.repeat(np.arange(sessions), 20)
    step = np.tile(np.arange(20), sessions)
    pause = rng.integers(8 * SECOND_US, 12 * SECOND_US, len(step))
    times = (number % each) * (2_000 * SECOND_US) + step * 12 * SECOND_US + pause
    prompt = rng.integers(850, 1_000, len(step))
    routes = number // each
    calls = _calls(
        NANO,
        times,
        prompt_tokens=prompt,
        completion_tokens=rng.integers(10, 20, len(step)),
        prefix_hash=hashes(routes, 5),
        tag=[f"planted-{route}" for route in routes.tolist()],
    )
    return Planted(calls, 0.5 * prompt[step % 5 != 0].sum() * NANO.input / 1e6)


PLANTS: Final = (
    Plant("d1_model_overkill", "short_answers", short_answers),
    Plant("d2_missed_caching", "uncached_prefix", uncached_prefix),
    Plant("d2_missed_caching", "short_lifetime", expired_writes),
    Plant("d2_missed_caching", "unread_writes", unread_writes),
    Plant("d3_context_bloat", "outgrown", oversized_prompts),
    Plant("d4_duplicate_calls", "same_prompt", same_prompt),
    Plant("d4_duplicate_calls", "same_shape", same_shape),
    Plant("d5_max_tokens_misfit", "truncated", cut_answers),
    Plant("d6_chatty_loop", "hashed", loops),
)
