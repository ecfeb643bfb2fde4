"""Ninety days of made-up calls of one account, the same each time, for `up --seed` and tests.

Forty routes in four environments, with growth and a weekly rhythm. One route stops repeating its
calls on day 45; another does so on day 40 and begins again on day 76. Two days are unusual.
"""

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from detectors.contract.record import UsageRecordV2

SEEDED_DAYS: Final = 90
SEEDED_ROUTES: Final = 40
FIXED_ROUTE, RETURNED_ROUTE = "invoice-matching", "ticket-routing"
SHORT_ROUTE: Final = "search"  # short answers of a flagship model
UNUSUAL_ROUTE: Final = "contract-review"
FIXED_ON, PAUSED = 45, range(40, 76)
UNUSUAL_DAYS: Final = (66, 87)  # counted from 0

_NAMED: Final = (FIXED_ROUTE, RETURNED_ROUTE, "support-chat", UNUSUAL_ROUTE, SHORT_ROUTE)
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
_REPEATED: Final = 3
_UNUSUAL: Final = 20  # times the usual calls


def make_calls(last: date) -> Iterator[list[UsageRecordV2]]:
    """Yield the calls of each day, oldest first, the last of them on this day."""
    first = last - timedelta(days=SEEDED_DAYS - 1)
    for number in range(SEEDED_DAYS):
        chance = random.Random(number)  # noqa: S311 - the same calls each time
        day = first + timedelta(days=number)
        usual = _CALLS * (1 + _GROWTH) ** number * _WEEKDAYS[day.weekday()]
        calls = [
            call
            for route in range(SEEDED_ROUTES)
            for call in _make_route(route, number, day, usual, chance)
        ]
        yield sorted(calls, key=lambda call: call.ts)


def name_route(number: int) -> str:
    return _NAMED[number] if number < len(_NAMED) else f"workflow-{number:02}"


def _make_route(
    route: int, number: int, day: date, usual: float, chance: random.Random
) -> Iterator[UsageRecordV2]:
    name = name_route(route)
    is_unusual = name == UNUSUAL_ROUTE and number in UNUSUAL_DAYS
    is_repeated = name == FIXED_ROUTE and number < FIXED_ON
    is_repeated |= name == RETURNED_ROUTE and number not in PAUSED
    # The fraction of a call is a chance, so that growth shows in small counts.
    count = int(usual * (_UNUSUAL if is_unusual else 1) + chance.random())
    provider, model = _MODELS[route % len(_MODELS)]
    midnight = datetime.combine(day, time(), UTC)
    for index in range(count):
        seconds = (index + chance.random()) * 80_000 / max(count, 1)
        # A few routes cost most of the money.
        tokens = int(chance.uniform(0.8, 1.2) * 60_000 / (1 + route % 10) ** 0.7)
        answer = chance.randrange(*((20, 90) if name == SHORT_ROUTE else (300, 1_200)))
        for repeat in range(_REPEATED if is_repeated else 1):
            yield UsageRecordV2(
                ts=midnight + timedelta(seconds=round(seconds, 3) + 2 * repeat),
                provider=provider,
                model=model,
                prompt_tokens=tokens,
                completion_tokens=answer,
                latency_ms=float(400 + answer * 12),
                request_id=f"seed-{day}-{route}-{index}-{repeat}",
                tag=name,
                environment=_ENVIRONMENTS[(route + index) % len(_ENVIRONMENTS)],
            )
