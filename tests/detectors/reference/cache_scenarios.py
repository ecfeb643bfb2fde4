"""Traffic around the limits of d2: chats, shared prompts and caches that are used."""

from datetime import datetime
from hashlib import sha256
from random import Random
from typing import Any

from detectors.contract import LEVEL_DIGITS, LEVELS, LEVELS_OF_HASHES, UsageRecord
from tests.detectors.reference.sources import (
    CHANGING_PRICES,
    CLAUDES,
    FLAGSHIPS,
    HOSTED,
    clock,
    draw_hash,
    draw_source,
)


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


def chat(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return conversations that grow from turn to turn, some of them forked or shortened."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES, *CHANGING_PRICES))
    pace = rng.choice([0.5, 20, 120, 290, 320])
    times = clock(source, lambda: pace * rng.uniform(0.3, 1.4))
    shortest = rng.choice([800, 1_024, 3_500, 4_096, 15_000])
    growth = rng.choice([0, 1, 50, 900])
    chats = [[shortest + rng.randint(0, 500), 0] for _ in range(rng.choice([1, 2, 3, 6]))]
    opening, names = draw_hash(rng), [draw_hash(rng) for _ in chats]
    is_system_prompt_shared = rng.random() < 0.6
    detail = rng.choice([1, 2, 3, 3])
    records = []
    for _ in range(rng.choice([3, 8, 20, 40])):
        number = rng.randrange(len(chats))
        before, answer = chats[number]
        grown = before + answer + rng.randint(0, growth)
        prompt = rng.choice([grown, grown, grown, grown, before, max(shortest, before // 2)])
        completion = rng.choice([0, 30, 300, 900])
        own = names[number]
        first = opening if is_system_prompt_shared else own
        records.append(
            source.call(next(times), prompt, completion, **_hashes(prompt, first, own, detail))
        )
        chats[number] = [prompt, completion]
    return records


def _hashes(prompt: int, first: str, own: str, detail: int) -> dict[str, object]:
    """Return the hashes that a prompt is long enough for; the first 1,024 tokens may be shared."""
    return {
        "prefix_hash": first,
        "prefix_hash_16k": own if detail > 1 and prompt >= 4_096 else None,
        "prefix_hash_64k": own if detail > 2 and prompt >= 16_384 else None,
    }


def unread_writes(rng: Random, start: datetime) -> list[UsageRecord]:
    models = (*CLAUDES, *HOSTED, ("openai", "gpt-5.6-sol"))
    source = draw_source(rng, start, models)
    times = clock(source, lambda: rng.choice([60, 299, 300, 301, 2_000, 3_600, 3_601, 9_000]))
    read_share = rng.choice([0.0, 0.0, 0.1, 0.22, 0.5])
    choices: list[list[str | None]] = [[None], [None, draw_hash(rng)], [draw_hash(rng)]]
    hashes = rng.choice(choices)
    records = []
    for _ in range(rng.choice([1, 5, 15, 40])):
        prompt = rng.randint(1_500, 9_000)
        part = rng.randint(1_024, prompt)
        counts = {"cached_tokens": part} if rng.random() < read_share else _writes(rng, part)
        known = rng.choice(hashes)
        records.append(
            source.call(next(times), prompt, rng.randint(300, 900), prefix_hash=known, **counts)
        )
    return records


def _writes(rng: Random, tokens: int) -> dict[str, object]:
    hour = rng.choice([None, None, 0, tokens // 2, tokens])
    return {"cache_write_tokens": tokens, "cache_write_1h_tokens": hour}


def expiring_cache(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return a job whose cached prompt grows a little and often expires before the next call."""
    source = draw_source(rng, start, (*CLAUDES, *CLAUDES, *HOSTED, *FLAGSHIPS))
    gaps = rng.choice([[420.0], [300.0, 300.001], [200.0, 420.0, 3_000.0], [420.0, 3_600.5]])
    times = clock(source, lambda: rng.choice(gaps))
    known = rng.choice([None, draw_hash(rng)])
    written = rng.choice([2_000, 10_000, 60_000])
    slack = rng.choice([0, 500, 2_048, 2_049, 6_000])
    completion = rng.choice([0, 50, 700])
    shrinks = rng.random() < 0.2
    records = []
    for number in range(rng.choice([2, 3, 9, 25])):
        is_read = rng.random() < 0.2
        counts: dict[str, object] = (
            {"cached_tokens": written} if is_read else {"cache_write_tokens": written}
        )
        if rng.random() < 0.1:
            counts = _writes(rng, written)
        prompt = written + rng.choice([0, 200])
        records.append(source.call(next(times), prompt, completion, prefix_hash=known, **counts))
        written += 0 if number == 0 else rng.choice([0, completion + slack])
        written = max(1_000, written - 10 * shrinks)
    return records


def laddered_prefix(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return prompts that share beginnings of any length, most of them with hashes by level."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES, *CHANGING_PRICES))
    pace = rng.choice([0.4, 4, 20, 150, 290, 310])
    times = clock(source, lambda: rng.choice([0.0, pace, pace * rng.uniform(0.5, 1.5)]))
    kinds = rng.choice([["levels"], ["levels"], ["levels", "three"], ["levels", "three", "both"]])
    characters_per_token = rng.choice([2.0, 3.7, 4.0, 5.2])
    heads = [(draw_hash(rng), rng.randint(1_000, 300_000)) for _ in range(rng.choice([1, 2, 5]))]
    has_answers_back = rng.random() < 0.4
    records: list[UsageRecord] = []
    length = 0
    for _ in range(rng.choice([2, 5, 12, 40])):
        head, shared = rng.choice(heads)
        grown = length + rng.choice([0, 40, 900, 5_000])
        own = grown if has_answers_back else shared + rng.choice([0, 10, 3_000, 90_000])
        length = max(own if own < 400_000 else shared, 200)
        reasoning = rng.choice([None, None, 200])
        records.append(
            source.call(
                next(times),
                max(1, int(length / characters_per_token) + rng.randint(-20, 20)),
                rng.choice([5, 40, 300]) + (reasoning or 0),
                reasoning_tokens=reasoning,
                cached_tokens=rng.choice([None, 0, 0, 0, 0, 512]),
                **draw_ladder(rng.choice(kinds), head, rng, shared, length),
            )
        )
    return records


def edged_ladder(rng: Random, start: datetime) -> list[UsageRecord]:
    """Return few calls on every edge: of a second, a level, a verdict, a minimum and a prompt."""
    source = draw_source(rng, start, (*FLAGSHIPS, *CLAUDES), routed=True)
    times = clock(source, lambda: rng.choice([0.0, 0.0, 0.4, 1.0, 1.0, 30.0, 299.0, 300.0, 301.0]))
    counts, longest = rng.choice([[1], [1, 2], [4, 5, 6], [9, 12, 13], [13]]), 13
    names, first = sorted(LEVELS_OF_HASHES), source.call(start, rng.choice([1_024, 4_096]), 5)
    records = [first]
    for _ in range(rng.choice([3, 5, 6, 7, 12, 20])):
        last = rng.choice(records[-2:])
        step = rng.choice([0, last.completion_tokens, -5, 40, 3_000, -3_000])
        prompt = max(last.prompt_tokens + step + rng.choice([-1, 0, 0, 1]), 1_000)
        # Two hashes of each level, which may be equal above a level at which they differ.
        levels = [f"{size:015x}{rng.choice('aab')}" for size in LEVELS[: rng.choice(counts)]]
        fields: dict[str, Any] = {"prefix_hashes": levels}
        if rng.random() < 0.3:
            others = {name: LEVELS_OF_HASHES[name] for name in rng.sample(names, 2)}
            known = levels + [f"{size:015x}a" for size in LEVELS[len(levels) : longest]]
            own = {name: known[at] + "0" * 48 for name, at in others.items()}
            fields = own if rng.random() < 0.6 else fields | own
        if rng.random() < 0.1:
            fields |= {"cache_write_tokens": 512, "cache_write_1h_tokens": rng.choice([None, 512])}
        records.append(source.call(next(times), prompt, rng.choice([0, 1, 5, 40]), **fields))
    return records[1:]


def draw_ladder(kind: str, head: str, rng: Random, shared: int, length: int) -> dict[str, Any]:
    """Return the hashes of a prompt that shares its first characters with others of its head."""
    own = draw_hash(rng)
    levels = [
        sha256(f"{head if size <= shared else own} {size}".encode()).hexdigest()
        for size in LEVELS
        if size == LEVELS[0] or size <= length
    ]
    fields: dict[str, Any] = {"prefix_hashes": [each[:LEVEL_DIGITS] for each in levels]}
    if kind != "levels":
        long = {
            name: levels[level] for name, level in LEVELS_OF_HASHES.items() if level < len(levels)
        }
        fields = long if kind == "three" else fields | long
    return fields
