"""Ninety days of made-up calls of one account, the same each time, for `up --seed` and tests.

Forty routes of a company that sells to other companies, in four environments, with growth and a
weekly rhythm. About a tenth of the spend is avoidable. A release on day 45 stops a route from
repeating its calls; another route pauses that from day 40 to day 76. Two days are unusual.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from hashlib import sha256
from typing import Final

from detectors.contract.record import LEVEL_DIGITS, LEVELS, UsageRecordV2

SEEDED_DAYS: Final = 90
FIXED_ROUTE, RETURNED_ROUTE = "invoice-matching", "ticket-routing"
SHORT_ROUTE: Final = "search"  # short answers of a flagship model
UNUSUAL_ROUTE: Final = "contract-review"
CACHED_ROUTE: Final = "knowledge-base-answers"  # the same long beginning, never cached
WRITING_ROUTE: Final = "report-writer"  # writes to the cache what nobody reads
LOOPING_ROUTE: Final = "product-tagging"  # one item per call
FIXED_ON, PAUSED = 45, range(40, 76)
RELEASE: Final = "Release 2.4"
UNUSUAL_DAYS: Final = (66, 87)  # counted from 0

# Each tenth route costs the most, and each fourth is of the same model.
ROUTES: Final = (
    *(FIXED_ROUTE, RETURNED_ROUTE, "support-chat", UNUSUAL_ROUTE, SHORT_ROUTE),
    *("email-drafts", "spam-filter", "code-review", "sales-notes", "translation"),
    *("log-triage", "meeting-notes", LOOPING_ROUTE, "release-notes", "tone-check"),
    *("data-extraction", "job-matching", "faq-writer", "alt-text", "risk-report"),
    *(CACHED_ROUTE, "order-status", "language-detection", "onboarding-guide", "quote-builder"),
    *("refund-check", "entity-names", "policy-answers", "survey-themes", "subject-lines"),
    *("ticket-summary", WRITING_ROUTE, "lead-scoring", "menu-import", "profanity-check"),
    *("audit-trail", "price-comparison", "shipping-notes", "keyword-tags", "board-summary"),
)
_ENVIRONMENTS: Final = ("production", "production", "production", "staging", "eval", "development")
_MODELS: Final = (
    ("openai", "gpt-5.5"),
    ("anthropic", "claude-sonnet-5-5"),
    ("openai", "gpt-5.4-mini"),
    ("anthropic", "claude-opus-5-5"),
)
_WEEKDAYS: Final = (1.0, 1.05, 1.1, 1.05, 0.95, 0.45, 0.4)
_CALLS: Final = 5  # of a route on a usual day
_GROWTH: Final = 0.006  # per day
_FIXED_TIMES, _RETURNED_TIMES = 4, 3  # how often a call is sent
_UNUSUAL: Final = 20  # times the usual calls
# Calls that come together, with so many seconds in between.
_BURST, _BURST_SECONDS = 5, 25
_LOOP, _LOOP_SECONDS = 15, 20
_MORNING, _DAY_SECONDS = 30_000, 50_000


def make_calls(last: date) -> Iterator[list[UsageRecordV2]]:
    """Yield the calls of each day, oldest first, the last of them on this day."""
    first = last - timedelta(days=SEEDED_DAYS - 1)
    for number in range(SEEDED_DAYS):
        chance = random.Random(number)  # noqa: S311 - the same calls each time
        day = first + timedelta(days=number)
        usual = _CALLS * (1 + _GROWTH) ** number * _WEEKDAYS[day.weekday()]
        calls = [
            call
            for route in range(len(ROUTES))
            for call in _make_route(route, number, day, usual, chance)
        ]
        yield sorted(calls, key=lambda call: call.ts)


def _make_route(
    route: int, number: int, day: date, usual: float, chance: random.Random
) -> Iterator[UsageRecordV2]:
    name, (provider, model) = ROUTES[route], _MODELS[route % len(_MODELS)]
    is_looping = name == LOOPING_ROUTE
    is_unusual = name == UNUSUAL_ROUTE and number in UNUSUAL_DAYS
    # The fraction of a call is a chance, so that growth shows in small counts.
    times = 3 if is_looping else _UNUSUAL if is_unusual else 1
    count = int(usual * times + chance.random())
    sent = 1  # as often as a client repeats a call
    if name == FIXED_ROUTE and number < FIXED_ON:
        sent = _FIXED_TIMES
    elif name == RETURNED_ROUTE and number not in PAUSED:
        sent = _RETURNED_TIMES
    midnight = datetime.combine(day, time(), UTC)
    for index in range(count):
        seconds = (index + chance.random()) * 80_000 / max(count, 1)
        if name == CACHED_ROUTE:
            seconds = _in_bursts(index, count, _BURST, _BURST_SECONDS)
        elif is_looping:
            seconds = _in_bursts(index, count, _LOOP, _LOOP_SECONDS)
        # A few routes cost most of the money.
        tokens = int(chance.uniform(0.8, 1.2) * 60_000 / times / (1 + route % 10) ** 0.7)
        if is_unusual:
            tokens *= times
        elif name == RETURNED_ROUTE:  # so little that its return is no unusual day
            tokens //= 2
        is_short = name == SHORT_ROUTE or is_looping
        answer = chance.randrange(*((20, 90) if is_short else (300, 1_200)))
        for repeat in range(sent):
            yield UsageRecordV2(
                ts=midnight + timedelta(seconds=round(seconds, 3) + 2 * repeat),
                provider=provider,
                model=model,
                prompt_tokens=tokens,
                completion_tokens=answer,
                cache_write_tokens=tokens - 200 if name == WRITING_ROUTE else None,
                latency_ms=float(400 + answer * 12),
                request_id=f"seed-{day}-{route}-{index}-{repeat}",
                tag=name,
                environment=_ENVIRONMENTS[(route + index) % len(_ENVIRONMENTS)],
                prefix_hashes=_hash_prompt(name, index, tokens),
            )


def _in_bursts(index: int, count: int, size: int, pause: int) -> float:
    """Return the second of a call that comes with others."""
    bursts = -(-count // size)
    return _MORNING + index // size * _DAY_SECONDS / bursts + index % size * pause


# The prompts of these begin with as many equal levels; the others send no hashes.
_SHARED: Final = {CACHED_ROUTE: 12, LOOPING_ROUTE: 6}


def _hash_prompt(route: str, index: int, tokens: int) -> list[str] | None:
    shared = _SHARED.get(route)
    if shared is None:
        return None
    levels = sum(level <= 4 * tokens for level in LEVELS)
    return [
        _hash_level(f"{route} {level}" if level < shared else f"{route} {level} {index} {tokens}")
        for level in range(levels)
    ]


@cache
def _hash_level(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:LEVEL_DIGITS]
