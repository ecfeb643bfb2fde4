"""Kinds of traffic: each function draws one group's calls, around the limits of one definition.

A drawn case may lie on either side of a limit; the reference and the rules must merely agree.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from detectors.contract import UsageRecord

FLAGSHIPS = (
    ("openai", "gpt-5.4"),
    ("openai", "gpt-5.4-2026-03-05"),
    ("openai", "gpt-5.4-mini"),
    ("openai", "gpt-4o"),
    ("openai", "o3"),
    ("openai", "gpt-5.6-sol"),
    ("openai", "gpt-5.5-pro"),
    ("azure", "gpt-4.1-2025-04-14"),
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("google", "gemini-2.5-pro"),
    ("claude-code", "claude-opus-4-8"),
    ("house-gateway", "gpt-4.1"),
    ("litellm", "openai/gpt-5"),
)
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
UNPRICED = (
    ("openai", "my-own-finetune-of-1999"),
    ("basement", "llama-on-a-shelf"),
    ("anthropic", "gpt-5.4"),
)
PRICED = (*FLAGSHIPS, *CLAUDES, *CHANGING_PRICES, *SMALL)


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
        return UsageRecord(
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
    """Times from the source's start on, each a drawn number of seconds after the last."""
    now = source.start
    while True:
        yield now
        now += timedelta(seconds=gaps())


def short_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, FLAGSHIPS)
    times = clock(source, lambda: rng.uniform(40, 4_000))
    usual = rng.choice([20, 100, 140, 150, 160])
    spread = rng.choice([5, 40, 300])
    longest = rng.choice([900, 3_000, 250_000])
    is_cached = rng.random() < 0.3
    records = []
    for _ in range(rng.choice([4, 5, 6, 12, 30])):
        prompt = rng.choice([0, 40, longest, longest, longest])
        cached = rng.randint(0, prompt) if is_cached else None
        completion = usual + rng.randint(-20, spread)
        records.append(source.call(next(times), prompt, completion, cached_tokens=cached))
    return records


def spree(rng: Random, start: datetime) -> list[UsageRecord]:
    """A few calls that cost as much as all others together."""
    source = draw_source(rng, start, (("openai", "gpt-5.5-pro"), ("anthropic", "claude-opus-4-1")))
    times = clock(source, lambda: rng.uniform(40, 600))
    return [
        source.call(next(times), rng.randint(150_000, 260_000), rng.choice([90, 140, 160]))
        for _ in range(rng.choice([1, 6, 14]))
    ]


def hashed_prefix(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES, *CHANGING_PRICES))
    pace = rng.choice([0.4, 20, 240, 301, 900])
    times = clock(source, lambda: rng.choice([0.0, pace, pace * rng.uniform(0.5, 1.5)]))
    hashes = [draw_hash(rng) for _ in range(rng.choice([1, 1, 2, 4]))]
    shortest = rng.choice([900, 1_023, 1_024, 2_100, 4_096])
    return [
        source.call(
            next(times),
            shortest + rng.randint(0, 3_000),
            rng.randint(300, 2_500),
            prefix_hash=rng.choice(hashes),
            cached_tokens=rng.choice([None, 0, 0, 0, 512]),
        )
        for _ in range(rng.choice([2, 3, 4, 8, 25]))
    ]


def unhashed_prefix(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, CLAUDES, routed=rng.random() < 0.9)
    pace = rng.choice([2, 30, 200, 500])
    times = clock(source, lambda: pace * rng.uniform(0.2, 1.6))
    typical = rng.choice([1_900, 2_048, 2_300, 6_000, 9_000, 20_000])
    common_hash = rng.choice([None, None, None, draw_hash(rng)])
    records = [
        source.call(
            next(times),
            int(typical * rng.uniform(1.0, 1.4)),
            rng.randint(400, 3_000),
            prefix_hash=common_hash,
        )
        for _ in range(rng.choice([18, 20, 21, 40]))
    ]
    if rng.random() < 0.5:
        records.append(source.call(next(times), rng.randint(0, 1_100), 900))
    return records


def unread_writes(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, (*CLAUDES, ("openai", "gpt-5.6-sol")))
    times = clock(source, lambda: rng.uniform(100, 2_000))
    read_share = rng.choice([0.0, 0.1, 0.22, 0.5])
    records = []
    for _ in range(rng.choice([1, 5, 15, 40])):
        prompt = rng.randint(1_500, 9_000)
        part = rng.randint(1_024, prompt)
        is_read = rng.random() < read_share
        counts = {"cached_tokens": part} if is_read else {"cache_write_tokens": part}
        records.append(source.call(next(times), prompt, rng.randint(300, 900), **counts))
    return records


def bloated_context(rng: Random, start: datetime) -> list[UsageRecord]:
    """Comparable work on several routes, one of them with far longer prompts."""
    low = 1 << rng.choice([0, 4, 9, 12, 14])
    norm = rng.choice([200, 1_000, 4_000])
    records = []
    for _ in range(rng.choice([1, 3, 4])):
        usual = draw_source(rng, start, SMALL)
        times = clock(usual, lambda: rng.uniform(60, 5_000))
        records += [
            usual.call(next(times), norm + rng.randint(-50, 50), rng.randint(low, 2 * low - 1))
            for _ in range(rng.choice([10, 14]))
        ]
    heavy = draw_source(rng, start, PRICED)
    times = clock(heavy, lambda: rng.uniform(60, 5_000))
    multiple = rng.choice([2.5, 3.0, 3.1, 12])
    for _ in range(rng.choice([9, 10, 14, 20])):
        prompt = int(norm * multiple * rng.uniform(0.9, 1.2))
        cached = rng.choice([None, 0, prompt // 2])
        completion = rng.randint(low, 2 * low - 1)
        records.append(heavy.call(next(times), prompt, completion, cached_tokens=cached))
    return records


def repeated_prompt(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.choice([0.0, 0.0, 1.0, 1.0, 5.0, 12.5, 29.9, 30.0, 31.0]))
    prompt = rng.choice([50, 120, 799, 800, 801])
    same = draw_hash(rng)
    records = [
        source.call(
            next(times),
            prompt,
            rng.choice([5, 5, 30, 700]),
            prefix_hash=same,
            cached_tokens=rng.choice([None, None, 10]),
        )
        for _ in range(rng.choice([2, 3, 4, 12, 19, 38]))
    ]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        records.append(source.call(next(times), prompt + 1, 50, prefix_hash=same))
    return records


def repeated_shape(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.choice([0.5, 2.0, 7.0, 14.0, 30.0, 45.0]))
    prompt, completion = rng.choice([300, 2_000, 9_000, 180_000]), rng.choice([19, 20, 21, 350])
    same = rng.choice([None, draw_hash(rng)])
    foreign_share = rng.choice([0.0, 0.0, 0.3, 0.5, 0.7])
    records = []
    for _ in range(rng.choice([2, 3, 4, 8, 16])):
        while rng.random() < foreign_share:
            records.append(source.call(next(times), rng.randint(200, 9_000), rng.randint(1, 900)))
        records.append(source.call(next(times), prompt, completion, prefix_hash=same))
    return records


def capped_answers(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.uniform(10, 3_000))
    cap = rng.choice([1, 16, 17, 256, 1_024])
    cut = rng.choice([4, 5, 6, 10])
    whole = rng.choice([0, 10, 49, 50, 245, 250]) if rng.random() < 0.4 else rng.randrange(20)
    completions = [cap + rng.choice([0, 0, 3]) for _ in range(cut)]
    completions += [rng.randrange(cap) for _ in range(whole)]
    rng.shuffle(completions)
    records = [
        source.call(next(times), rng.randint(20, 4_000), completion, declared_max_tokens=cap)
        for completion in completions
    ]
    records += [source.call(next(times), 300, 600) for _ in range(rng.randrange(5))]
    return records


def oversized_caps(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED)
    times = clock(source, lambda: rng.uniform(10, 3_000))
    longest = rng.choice([10, 100, 400])
    cap = longest * rng.choice([9, 10, 11, 40])
    return [
        source.call(
            next(times),
            rng.randint(20, 4_000),
            rng.choice([longest, longest - 1, rng.randint(1, longest)]),
            declared_max_tokens=rng.choice([cap, cap, cap, 64, None]),
        )
        for _ in range(rng.choice([19, 20, 30, 45]))
    ]


def loop(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, PRICED, routed=rng.random() < 0.9)
    pace = rng.choice([1.0, 4.0, 4.0, 20.0, 55.0, 65.0])
    is_rounded = rng.random() < 0.4
    overlap_share = rng.choice([0.0, 0.0, 0.0, 0.03, 0.08, 0.28, 0.35])

    def gap() -> float:
        if rng.random() < overlap_share:
            return 0.0 if is_rounded else rng.choice([0.0, 0.1, 0.249, 0.25])
        seconds = pace * rng.uniform(0.8, 1.3)
        return float(max(round(seconds), 1)) if is_rounded else seconds

    times = clock(source, gap)
    hash_share = rng.choice([0.0, 0.45, 0.6, 1.0])
    long_share = rng.choice([0.0, 0.0, 0.1, 0.2, 0.25])
    same = draw_hash(rng)
    records = []
    for session in range(rng.choice([1, 1, 2, 3])):
        for _ in range(rng.choice([9, 10, 11, 16, 40])):
            ts = next(times) + timedelta(minutes=40 * session)
            completion = (
                rng.choice([101, 600]) if rng.random() < long_share else rng.randint(1, 100)
            )
            known = same if rng.random() < hash_share else None
            prompt = rng.randint(801, 2_500)
            records.append(source.call(ts, prompt, completion, prefix_hash=known))
    return records


def overfull(rng: Random, start: datetime) -> list[UsageRecord]:
    """More cached and written tokens than the prompt has, as some logs count them."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES))
    times = clock(source, lambda: rng.uniform(1, 900))
    return [
        source.call(
            next(times),
            rng.choice([0, 10, 1_500]),
            rng.randint(0, 500),
            cached_tokens=rng.choice([None, 900, 1_600]),
            cache_write_tokens=rng.choice([None, 900, 1_600]),
        )
        for _ in range(rng.choice([1, 6, 20]))
    ]


def long_context(rng: Random, start: datetime) -> list[UsageRecord]:
    """Prompts around the lengths where vendors charge another rate."""
    models = (
        ("openai", "gpt-5.4"),
        ("openai", "gpt-5.6-sol"),
        ("google", "gemini-2.5-pro"),
        ("anthropic", "claude-sonnet-4-5"),
        ("anthropic", "claude-opus-4-6"),
    )
    source = draw_source(rng, start, models)
    times = clock(source, lambda: rng.uniform(1, 400))
    edges = [128_000, 200_000, 272_000]
    common = rng.choice([None, draw_hash(rng)])
    return [
        source.call(
            next(times),
            rng.choice(edges) + rng.choice([-1, 0, 1, 5_000]),
            rng.randint(1, 900),
            prefix_hash=common,
            cached_tokens=rng.choice([None, 0, 100_000]),
        )
        for _ in range(rng.choice([3, 10, 24]))
    ]


def clean(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start, SMALL)
    times = clock(source, lambda: rng.uniform(30, 6_000))
    return [
        source.call(
            next(times),
            rng.randint(800, 3_000),
            rng.randint(500, 2_000),
            cached_tokens=rng.randint(0, 800),
            latency_ms=rng.uniform(100, 9_000),
        )
        for _ in range(rng.choice([1, 15, 40]))
    ]


def unpriced(rng: Random, start: datetime) -> list[UsageRecord]:
    source = draw_source(rng, start - timedelta(days=rng.choice([0, 0, 3])), UNPRICED)
    times = clock(source, lambda: rng.choice([1.0, 5.0, 4_000.0]))
    return [
        source.call(next(times), rng.choice([100, 90_000]), rng.choice([30, 30, 90]))
        for _ in range(rng.choice([1, 12, 40]))
    ]


def crowd(rng: Random, start: datetime) -> list[UsageRecord]:
    """Few values, few times: ties of every kind."""
    source = draw_source(rng, start, PRICED)
    hashes = [None, draw_hash(rng)]
    return [
        source.call(
            start + timedelta(seconds=rng.choice([0, 0, 1, 2, 30, 60, 330, 1_300])),
            rng.choice([0, 1, 700, 1_024]),
            rng.choice([0, 1, 20, 100]),
            prefix_hash=rng.choice(hashes),
            request_id=rng.choice([None, "", "a", "b", "é", "Z"]),
            cached_tokens=rng.choice([None, 0, 1]),
            declared_max_tokens=rng.choice([None, 0, 20]),
        )
        for _ in range(rng.choice([5, 20, 40]))
    ]


SCENARIOS = (
    short_answers,
    spree,
    hashed_prefix,
    unhashed_prefix,
    unread_writes,
    bloated_context,
    repeated_prompt,
    repeated_shape,
    capped_answers,
    oversized_caps,
    loop,
    overfull,
    long_context,
    clean,
    unpriced,
    crowd,
)
# Kinds that rarely come out whole: whole logs hold them more often.
SHY = (
    loop,
    loop,
    repeated_prompt,
    repeated_prompt,
    oversized_caps,
    unhashed_prefix,
    unhashed_prefix,
)
