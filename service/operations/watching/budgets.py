"""How far an account's budgets are spent this month, and which thresholds they have reached."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from service.models.base import Executor
from service.models.calls.spend import Selection, sum_days, sum_days_of
from service.models.watching.budgets import FORECAST, THRESHOLDS, list_budgets
from service.operations.watching.forecast import HISTORY_DAYS, forecast_month

_PERCENTAGES: Final = tuple(each for each in THRESHOLDS if each != FORECAST)


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """A budget in the month of today."""

    budget_id: str
    route: str | None
    amount_usd: Decimal
    month: date  # its first day
    today: date
    spend_usd: Decimal
    forecast_usd: Decimal | None

    @property
    def percent(self) -> float:
        return float(self.spend_usd / self.amount_usd * 100)

    @property
    def is_forecast_over(self) -> bool:
        """Return True if the month is forecast to exceed a budget that isn't spent yet."""
        forecast = self.forecast_usd
        return forecast is not None and self.spend_usd < self.amount_usd < forecast

    @property
    def reached(self) -> list[str]:
        """Return the thresholds of `THRESHOLDS` that are reached."""
        spent = [each for each in _PERCENTAGES if self.percent >= int(each)]
        return [*spent, FORECAST] if self.is_forecast_over else spent


def list_states(
    session: Executor,
    account_id: str,
    today: date,
    account_days: Mapping[date, Decimal] | None = None,
    *,
    is_local: bool = False,
) -> Sequence[BudgetState]:
    """Return the account's budgets as they are today: its own first, then those of routes.

    `account_days` are the account's dollars by day, for a caller that has them.
    """
    budgets = list_budgets(session, account_id)
    days = (min(today.replace(day=1), today - timedelta(days=HISTORY_DAYS)), today)
    routes = [each.route for each in budgets if each.route is not None]
    days_of: dict[str | None, Mapping[date, Decimal]] = {}
    if routes:
        by_route = Selection(*days, keys=("route",), is_local=is_local)
        days_of.update(sum_days_of(session, account_id, by_route, routes))
    if len(routes) < len(budgets):
        known = account_days or sum_days(session, account_id, days, is_local=is_local)
        days_of[None] = {day: usd for day, usd in known.items() if day >= days[0]}
    month = today.replace(day=1)
    return [
        BudgetState(
            budget_id=each.id,
            route=each.route,
            amount_usd=each.amount_usd,
            month=month,
            today=today,
            spend_usd=sum(
                (usd for day, usd in days_of[each.route].items() if day >= month), Decimal(0)
            ),
            forecast_usd=forecast_month(days_of[each.route], today),
        )
        for each in budgets
    ]
