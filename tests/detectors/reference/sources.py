"""Where drawn calls come from: models of every pricing habit, labels, hashes and clocks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from detectors.contract import UsageRecord, UsageRecordV2
from tests.cases import data_of

FLAGSHIPS = tuple(data_of(__file__)["flagships"])
CLAUDES = (
    ("anthropic", "claude-sonnet-4-5"),
    ("anthropic", "claude-opus-4-1"),
    ("anthropic", "claude-haiku-4-5"),
    ("anthropic", "claude-sonnet-4-6"),
    ("anthropic", "claude-haiku-5-5"),
    ("google", "claude-sonnet-4-6"),
    ("claude-max", "claude-opus-4-5"),
)
CHANGING_PRICES = (
    ("deepseek", "deepseek-chat"),
    ("deepseek", "deepseek-v4-flash"),
    ("openai", "gpt-5.6-terra"),
    ("openai", "gpt-5.6-luna"),
    ("google", "gemini-4-argon"),
    ("copilot", "deepseek-reasoner"),
    ("cursor", "grok-4.5-fast"),
)
SMALL = (
    ("openai", "gpt-5-nano"),
    ("openai", "gpt-4o-mini"),
    ("google", "gemini-2.5-flash-lite"),
    ("groq", "llama-3.1-8b-instant"),
    ("perplexity", "sonar"),
    ("openai", "text-embedding-3-small"),
)
LEGACY = (
    ("openai", "gpt-4-0613"),
    ("openai", "gpt-4-turbo"),
    ("azure", "gpt-4-0613"),
    ("anthropic", "claude-3-opus"),
    ("anthropic", "claude-3-5-sonnet-20241022"),
    ("openrouter", "anthropic/claude-3-opus"),
    ("my-gateway", "claude-3-opus-20240229"),
    ("openai", "gpt-3.5-turbo"),
)
HOSTED = (
    ("aws", "us.anthropic.claude-sonnet-4-6-v1:0"),
    ("aws", "eu.anthropic.claude-opus-4-20250514"),
    ("openrouter", "anthropic/claude-sonnet-4.5"),
    ("openrouter", "google/gemini-2.5-pro"),
    ("anthropic", "claude-sonnet-4-5[1m]"),
)
UNPRICED = (
    ("openai", "my-own-finetune-of-1999"),
    ("basement", "llama-on-a-shelf"),
    ("google", "gpt-5.4"),
)
PRICED = (*FLAGSHIPS, *CLAUDES, *LEGACY, *HOSTED, *CHANGING_PRICES, *SMALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a group's calls come from: the labels that every record of it carries."""

    rng: Random
    start: datetime
    provider: str
    model: str
    tag: str | None
    endpoint: str | None

    def call(self, ts: datetime, prompt: int, completion: int, **fields: object) -> UsageRecord:
        return UsageRecordV2(
            ts=ts,
            provider=self.provider,
            model=self.model,
            tag=self.tag,
            endpoint=self.endpoint,
            prompt_tokens=max(prompt, 0),
            completion_tokens=max(completion, 0),
            **fields,  # type: ignore[arg-type]
        )


def draw_source(
    rng: Random, start: datetime, models: Sequence[tuple[str, str]], *, routed: bool = False
) -> Source:
    provider, model = rng.choice(models)
    name = f"route-{rng.randrange(40)}"
    labels: list[tuple[str | None, str | None]] = [(name, None), (name, "/v1/x"), (None, name)]
    if not routed:
        labels += [(None, None), ("", None), ("", name)]
    tag, endpoint = rng.choice(labels)
    return Source(rng, start, provider, model, tag, endpoint)


def draw_hash(rng: Random) -> str:
    return f"{rng.getrandbits(256):064x}"


def clock(source: Source, gaps: Callable[[], float]) -> Iterator[datetime]:
    """Yield times from the source's start on, each a drawn number of seconds after the last."""
    now = source.start
    while True:
        yield now
        now += timedelta(seconds=gaps())
