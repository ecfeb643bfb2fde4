"""Watch accounts: unusual days once a day and after imports, budgets once an hour.

There is at most one mail a day.

Each account is one transaction, which claims it, so that a crash repeats or loses nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, Final, cast

from sqlalchemy import Connection, Row, func, select

from service.models.calls.account_days import (
    IN_UTC,
    AccountDays,
    find_days,
    find_days_in,
    has_utc_days,
    list_zones_used,
)
from service.models.calls.spend import DAY, MAX_DAYS, Selection, sum_spend
from service.models.mail.outbox import post_mail
from service.models.notices.deliveries import post_notice
from service.models.notices.events import BUDGET_REACHED, UNUSUAL_SPEND
from service.models.watching.budgets import FORECAST, add_budget_notice, drop_unmailed
from service.models.watching.news import SPEND_NOTICE, find_recipient, take_budgets, take_days
from service.models.watching.watches import (
    add_unusual_day,
    claim_check,
    claim_watch,
    list_days_before,
    list_spend_by_day,
    list_unchecked,
    list_unwatched,
    note_judged,
    remove_unusual_days,
    were_checked,
)
from service.operations.watching.budgets import BudgetState, list_states
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
_NEWS_DAYS: Final = 3
_DAY: Final = timedelta(days=1)
# So that the spend of many routes fits into memory.
_DAYS_AT_ONCE: Final = 30


def watch_days(connection: Connection, now: datetime) -> int:
    """Look for unusual days of some accounts; return the number of accounts."""
    with connection.begin():
        zones = list_zones_used(connection)
        lasts: dict[str | None, date] = {zone: _last_day(now, AccountDays(zone)) for zone in zones}
        utc = _last_day(now, IN_UTC)
        found = list_unwatched(connection, utc, lasts, _NEWS_DAYS, BATCH)
    for account_id, zone in found:
        with connection.begin():
            before = list_days_before(connection, account_id)
            judged = claim_watch(connection, account_id, lasts.get(zone, utc))
            if judged is not None:
                of = find_days_in(connection, account_id, zone)
                last = _last_day(now, of)
                news = (last - timedelta(days=_NEWS_DAYS - 1), last)
                _judge_changed(connection, account_id, news, judged, before, of)
                post_spend_mail(connection, account_id, now, of)
    return len(found)


def _last_day(now: datetime, of: AccountDays) -> date:
    """Return the last day that is over for a while."""
    return of.day(now - _CLOSED_AFTER) - timedelta(days=1)


def check_budgets(connection: Connection, now: datetime) -> int:
    """Check the budgets of some accounts; return the number of accounts."""
    with connection.begin():
        account_ids = list_unchecked(connection, BATCH)
    for account_id in account_ids:
        with connection.begin():
            is_again = not connection.scalar(select(were_checked(account_id)))
            if claim_check(connection, account_id):
                of = find_days(connection, account_id)
                day, is_local = of.day(now), of.is_local
                if is_again:
                    drop_unmailed(connection, account_id, day.replace(day=1))
                for state in list_states(connection, account_id, day, is_local=is_local):
                    _post_reached(connection, account_id, state, of)
                post_spend_mail(connection, account_id, now, of)
    return len(account_ids)


def _judge_changed(
    connection: Connection,
    account_id: str,
    news: tuple[date, date],
    judged: Mapping[str, str],
    before: Mapping[date, datetime | None],
    of: AccountDays,
) -> None:
    """Judge the days that have other spend than when they were judged, and those after them.

    An import may bring any days. Those before `news` are marked on pages, and no news. Nor is a day
    beside one that was unusual by another zone, because that has moved: see `list_days_before`.
    """
    last = news[1]
    oldest = last - timedelta(days=MAX_DAYS - 1)
    days = (oldest, last)
    known = list_spend_by_day(connection, account_id, days, is_local=of.is_local)
    changed = [
        day
        for day in {*known, *map(date.fromisoformat, judged)}
        if day >= oldest and judged.get(day.isoformat()) != known.get(day)
    ]
    remove_unusual_days(connection, account_id, [day for day in changed if day not in known])
    due = sorted(
        day
        for day in known
        if any(other <= day <= other + timedelta(days=HISTORY_DAYS) for other in changed)
    )
    for at in range(0, len(due), _DAYS_AT_ONCE):
        _judge(connection, account_id, due[at : at + _DAYS_AT_ONCE], news, before, of)
    note_judged(connection, account_id, {day.isoformat(): spend for day, spend in known.items()})


def _judge(
    connection: Connection,
    account_id: str,
    days: Sequence[date],
    news: tuple[date, date],
    before: Mapping[date, datetime | None],
    of: AccountDays,
) -> None:
    first = days[0] - timedelta(days=HISTORY_DAYS)
    series = _list_series(connection, account_id, (first, days[-1]), of)
    usual = []
    for day in days:
        found = find_unusual(series, day)
        if not found:
            usual.append(day)
            continue
        is_recent = day >= news[0]
        moved = [before[each] for each in (day - _DAY, day + _DAY) if each in before]
        is_mailed = bool(moved) and None not in moved
        row = {"account_id": account_id, "day": day, "series": describe_series(found)}
        row["mailed_at"] = None if is_recent and not is_mailed else func.now()
        if add_unusual_day(connection, row) and is_recent and not moved:
            notice = describe_day(day, found, of)
            post_notice(connection, account_id, UNUSUAL_SPEND, notice, dedupe_key=day.isoformat())
    remove_unusual_days(connection, account_id, usual)


def _list_series(
    connection: Connection, account_id: str, days: tuple[date, date], of: AccountDays
) -> Sequence[SpendSeries]:
    sums: dict[tuple[str, str], dict[date, Decimal]] = defaultdict(dict)
    keys = (DAY, "route", "model")
    wanted = Selection(*days, keys=keys, is_brief=True, is_local=of.is_local)
    for line in sum_spend(connection, account_id, wanted).groups:
        day, route, model = cast("tuple[date, str, str]", line.key)
        for key in ((ACCOUNT, ""), (ROUTE, route), (MODEL, model)):
            sums[key][day] = sums[key].get(day, Decimal(0)) + line.sums.cost_usd
    return [SpendSeries(*key, usd_by_day) for key, usd_by_day in sums.items()]


def _post_reached(
    connection: Connection, account_id: str, state: BudgetState, of: AccountDays
) -> None:
    """Post a notice for the highest percentage that is new, and for the forecast."""
    new = [each for each in state.reached if _add(connection, state, each)]
    percentages = [each for each in new if each != FORECAST]
    for threshold in chain(percentages[-1:], (each for each in new if each == FORECAST)):
        notice = describe_budget(state, threshold, of)
        key = f"{state.budget_id}:{state.month}:{threshold}:{state.amount_usd}"
        post_notice(connection, account_id, BUDGET_REACHED, notice, dedupe_key=key)


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


def post_spend_mail(
    connection: Connection, account_id: str, now: datetime, of: AccountDays
) -> str | None:
    """Post the mail of today if there is news and the account wants it; return its ID.

    It names no route or model of a batch, because a leaked ingest key could write labels. Routes
    with a budget were named by a person.
    """
    key = f"{SPEND_NOTICE}:{account_id}:{now:%Y-%m-%d}"
    recipient = find_recipient(connection, account_id, key)
    if recipient is None:
        return None
    days, budgets = take_days(connection, account_id), take_budgets(connection, account_id)
    if not days and not budgets:
        return None
    oldest = min([*(row.day for row in days), *(row.month for row in budgets)])
    newest: dict[tuple[str, date], Any] = {}  # notices of each budget and month
    for row in sorted(budgets, key=lambda row: (row.created_at, row.threshold != "forecast")):
        newest[(row.budget_id, row.month)] = row
    return post_mail(
        connection,
        kind=SPEND_NOTICE,
        recipient=recipient,
        account_id=account_id,
        parameters={
            "whose": of.words,
            "has_utc_days": has_utc_days(connection, account_id, of.zone, (oldest, of.day(now))),
            "days": [_describe_day(row) for row in days],
            "budgets": [
                {
                    "route": row.route,
                    "month": row.month.isoformat(),
                    "amount_usd": str(row.amount_usd),
                    "spend_usd": str(row.spend_usd),
                    "forecast_usd": None if row.forecast_usd is None else str(row.forecast_usd),
                }
                for row in newest.values()
            ],
        },
        dedupe_key=key,
    )


def _describe_day(row: Row[Any]) -> dict[str, Any]:
    account = next((each for each in row.series if each["scope"] == ACCOUNT), None)
    counts = Counter(each["scope"] for each in row.series)
    return {
        "day": row.day.isoformat(),
        "spend_usd": account and account["spend_usd"],
        "expected_usd": account and account["expected_usd"],
        "routes": counts["route"],
        "models": counts["model"],
    }
