"""Made-up spend: routes with a weekly rhythm, growth, noise, and some days that are planted."""

import math
import random
from collections import defaultdict
from collections.abc import Set
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from service.operations.watching.unusual_days import ACCOUNT, MODEL, ROUTE, SpendSeries

FIRST = date(2026, 6, 1)
DAYS = 90
_ROUTES = 40
_MODELS = 6
_PLANTED = 20
_YOUNG = 21
_WEEKDAYS = (1.0, 1.05, 1.1, 1.05, 0.95, 0.4, 0.35)
_NOISE = 0.15
# Three times the spend of a Sunday is at least a dollar above its band, or it would not be unusual.
_LEAST_USD = 4


class Season(NamedTuple):
    """The series of one account, and the days and routes that cost three times their usual."""

    series: list[SpendSeries]
    planted: Set[tuple[date, str]]

    def explains(self, day: date, scope: str, name: str) -> bool:
        """Whether something was planted there: a route also is in its model and its account."""
        routes = {route for when, route in self.planted if when == day}
        if scope == ACCOUNT:
            return bool(routes)
        return name in routes if scope == ROUTE else name in map(model_of, routes)


def model_of(route: str) -> str:
    """Some routes share a model."""
    return f"model-{int(route.removeprefix('route-')) % _MODELS}"


def make_season(seed: int) -> Season:
    chance = random.Random(seed)
    routes = [f"route-{number}" for number in range(_ROUTES)]
    days = [FIRST + timedelta(days=number) for number in range(DAYS)]
    pairs = [(day, route) for day in days[_YOUNG:] for route in routes]
    planted = set(chance.sample(pairs, _PLANTED))
    sums: dict[tuple[str, str], dict[date, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for route in routes:
        level, growth = chance.lognormvariate(2.5, 1.2) + _LEAST_USD, chance.uniform(-0.002, 0.012)
        for number, day in enumerate(days):
            trend = level * math.exp(growth * number) * _WEEKDAYS[day.weekday()]
            dollars = (
                trend * chance.lognormvariate(0, _NOISE) * (3 if (day, route) in planted else 1)
            )
            for key in ((ACCOUNT, ""), (ROUTE, route), (MODEL, model_of(route))):
                sums[key][day] += Decimal(f"{dollars:.6f}")
    return Season([SpendSeries(*key, found) for key, found in sums.items()], planted)
