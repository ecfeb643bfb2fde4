"""Watch accounts: unusual days once a day, budgets once an hour, and at most one mail a day.

Each account is one transaction, which claims it, so that a crash repeats or loses nothing.
"""

from collections import defaultdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Final, cast

from sqlalchemy import Connection

from service.models.calls.spend import DAY, Selection, sum_spend
from service.models.notices.deliveries import post_notice
from service.models.notices.events import BUDGET_REACHED, UNUSUAL_SPEND
from service.models.watching.budgets import FORECAST, add_budget_notice
from service.models.watching.watches import (
    add_unusual_day,
    claim_check,
    claim_watch,
    list_unchecked,
    list_unwatched,
)
from service.operations.watching.budgets import BudgetState, list_states
from service.operations.watching.mails import post_spend_mail
from service.operations.watching.unusual_days import (
    ACCOUNT,
    HISTORY_DAYS,
    MODEL,
    ROUTE,
    SpendSeries,
    find_unusual,
)
from service.operations.watching.wording import describe_budget, describe_day, describe_series

# Accounts per batch; one with many routes takes a tenth of a second.
BATCH: Final = 5
# The calls of a day may arrive a little after its end, or in an upload within three days.
_CLOSED_AFTER: Final = timedelta(hours=1)
_JUDGED_DAYS: Final = 3


def watch_days(connection: Connection, now: datetime) -> int:
    """Look for unusual days of some accounts; return the number of accounts."""
    last = (now - _CLOSED_AFTER).date() - timedelta(days=1)
    days = (last - timedelta(days=_JUDGED_DAYS - 1), last)
    with connection.begin():
        account_ids = list_unwatched(connection, days, BATCH)
    for account_id in account_ids:
        with connection.begin():
            if claim_watch(connection, account_id, last):
                _judge(connection, account_id, days)
                post_spend_mail(connection, account_id, now)
    return len(account_ids)


def check_budgets(connection: Connection, now: datetime) -> int:
    """Check the budgets of some accounts; return the number of accounts."""
    with connection.begin():
        account_ids = list_unchecked(connection, BATCH)
    for account_id in account_ids:
        with connection.begin():
            if claim_check(connection, account_id):
                for state in list_states(connection, account_id, now.date()):
                    new = [each for each in state.reached if _add(connection, state, each)]
                    percentages = [each for each in new if each != FORECAST]
                    for threshold in chain(
                        percentages[-1:], (each for each in new if each == FORECAST)
                    ):
                        notice = describe_budget(state, threshold)
                        key = f"{state.budget_id}:{state.month}:{threshold}:{state.amount_usd}"
                        post_notice(connection, account_id, BUDGET_REACHED, notice, dedupe_key=key)
                post_spend_mail(connection, account_id, now)
    return len(account_ids)


def _judge(connection: Connection, account_id: str, days: tuple[date, date]) -> None:
    first, last = days
    sums: dict[tuple[str, str], dict[date, Decimal]] = defaultdict(dict)
    since = first - timedelta(days=HISTORY_DAYS)
    wanted = Selection(since, last, keys=(DAY, "route", "model"), is_brief=True)
    for line in sum_spend(connection, account_id, wanted).groups:
        day, route, model = cast("tuple[date, str, str]", line.key)
        for key in ((ACCOUNT, ""), (ROUTE, route), (MODEL, model)):
            sums[key][day] = sums[key].get(day, Decimal(0)) + line.sums.cost_usd
    series = [SpendSeries(*key, usd_by_day) for key, usd_by_day in sums.items()]
    for day in (first + timedelta(days=number) for number in range(_JUDGED_DAYS)):
        found = find_unusual(series, day)
        row = {"account_id": account_id, "day": day, "series": describe_series(found)}
        if found and add_unusual_day(connection, row):
            notice = describe_day(day, found)
            post_notice(connection, account_id, UNUSUAL_SPEND, notice, dedupe_key=day.isoformat())


def _add(connection: Connection, state: BudgetState, threshold: str) -> bool:
    row = {
        "budget_id": state.budget_id,
        "month": state.month,
        "threshold": threshold,
        "amount_usd": state.amount_usd,
        "spend_usd": state.spend_usd,
        "forecast_usd": state.forecast_usd,
    }
    return add_budget_notice(connection, row)
