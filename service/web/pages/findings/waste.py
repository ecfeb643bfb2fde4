"""The map of waste: routes by detectors, sized by spend, toned by what could be saved."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from math import sqrt
from typing import Final, NamedTuple

from service.models.base import Executor
from service.models.calls.account_days import AccountDays
from service.models.calls.finding_list import sum_by_route
from service.models.calls.spend import Selection, sum_spend

_ROUTES: Final = 12
_DAYS: Final = 30
_SMALLEST: Final = 0.2  # of the largest square
_FAINTEST: Final = 0.25
_ALL: Final = Decimal("0.3")  # a share of the spend that could be saved and is as dark as it gets


class Square(NamedTuple):
    """A route's findings of one detector. `side` and `tone` are shares of the largest."""

    savings: Decimal
    side: float
    tone: float


class WasteRow(NamedTuple):
    """A route, what it cost, and a square or nothing for each detector."""

    route: str
    spend: Decimal
    squares: Sequence[Square | None]


class WasteMap(NamedTuple):
    """The detectors with savings, and the routes with the most."""

    detectors: Sequence[str]
    rows: Sequence[WasteRow]


def map_waste(session: Executor, account_id: str, of: AccountDays) -> WasteMap | None:
    """Return the map of the last days; None where a list says as much."""
    savings = sum_by_route(session, account_id)
    if len(savings) < 2:
        return None
    sums: dict[str, Decimal] = {}
    for (route, _), usd in savings.items():
        sums[route] = sums.get(route, Decimal(0)) + usd
    routes = sorted(sums, key=lambda each: -sums[each])[:_ROUTES]
    today = of.today()
    days = Selection(
        today - timedelta(days=_DAYS - 1),
        today,
        keys=("route",),
        among=routes,
        is_brief=True,
        is_local=of.is_local,
    )
    spend = {each.value: each.sums.cost_usd for each in sum_spend(session, account_id, days).groups}
    detectors = sorted({detector for route, detector in savings if route in routes})
    largest = max(spend.values(), default=Decimal(0)) or Decimal(1)
    rows = [
        WasteRow(
            route,
            spend.get(route, Decimal(0)),
            [
                _square(savings.get((route, each)), spend.get(route, Decimal(0)), largest)
                for each in detectors
            ],
        )
        for route in routes
    ]
    return WasteMap(detectors, rows)


def _square(savings: Decimal | None, spend: Decimal, largest: Decimal) -> Square | None:
    if savings is None:
        return None
    share = min(savings / spend / _ALL, Decimal(1)) if spend else Decimal(1)
    return Square(
        savings,
        max(sqrt(spend / largest), _SMALLEST),
        _FAINTEST + (1 - _FAINTEST) * float(share),
    )
