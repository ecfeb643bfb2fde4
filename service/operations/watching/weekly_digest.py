"""The weekly digest: what an account spent, what to fix, what was fixed, and its budgets.

It names no route or model of a batch, because a leaked ingest key could write labels. Each account
is claimed in the transaction that posts its mail, so a crash repeats or loses none.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Connection, func, select

from service.models.calls.account_days import (
    IN_UTC,
    AccountDays,
    find_days_in,
    has_utc_days,
    list_zones_used,
)
from service.models.calls.account_findings import (
    FIXED,
    RETURNED,
    UNRESOLVED,
    AccountFinding,
    FindingChange,
    FindingRecord,
)
from service.models.calls.coverage import find_gap
from service.models.calls.plan_usage import sum_plan_usage
from service.models.calls.spend import Period, find_last_day, sum_days
from service.models.mail.outbox import post_mail
from service.models.mail.report_mails import WEEKLY_DIGEST, claim_week, list_due_weekly
from service.operations.findings.periods import measure_all_realized
from service.operations.watching.budgets import BudgetState, list_states

# Accounts per batch.
BATCH: Final = 20
_WEEK: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)
_LISTED_FINDINGS: Final = 3
_LISTED_BUDGETS: Final = 5


def post_weekly_digests(connection: Connection, now: datetime, limit: int = BATCH) -> int:
    """Post the digests of the last week, from Monday to Sunday; return their number.

    A week ends with Sunday in the zone of the account, and its digest is due when that of UTC has
    ended, too: realized savings have UTC days, as has all spend until it is counted by the zone.
    """
    with connection.begin():
        ends = {zone: _end_of_week(now, AccountDays(zone)) for zone in list_zones_used(connection)}
        utc = _end_of_week(now, IN_UTC)
        due = list_due_weekly(connection, utc, ends, limit)
    for account in due:
        with connection.begin():
            ended_at = ends.get(account.time_zone, utc)
            if not claim_week(connection, account, ended_at):
                continue
            of = find_days_in(connection, account.id, account.time_zone)
            monday = AccountDays(account.time_zone).day(ended_at)
            parameters = summarize_week(connection, account.id, monday, now, of)
            if parameters is not None:
                post_mail(
                    connection,
                    kind=WEEKLY_DIGEST,
                    recipient=account.email,
                    account_id=account.id,
                    parameters=parameters,
                    dedupe_key=f"{WEEKLY_DIGEST}:{account.id}:{monday}",
                )
    return len(due)


def _end_of_week(now: datetime, of: AccountDays) -> datetime:
    """Return the time at which the last week ended: when the Monday after it began.

    It is the last Monday that has begun in UTC as well.
    """
    today = min(of.day(now), IN_UTC.day(now))
    return of.begin(today - timedelta(days=today.weekday()))


def summarize_week(
    connection: Connection, account_id: str, monday: date, now: datetime, of: AccountDays = IN_UTC
) -> dict[str, Any] | None:
    """Return what the mail says of the week before a Monday; None if nothing happened.

    Budgets are as they are now. Dollars are strings.
    """
    is_local, today = of.is_local, of.day(now)
    week, before = (monday - _WEEK, monday - _DAY), (monday - 2 * _WEEK, monday - _WEEK - _DAY)
    spend, previous = (
        sum(sum_days(connection, account_id, days, is_local=is_local).values(), Decimal(0))
        for days in (week, before)
    )
    oldest = min(before[0], today.replace(day=1))
    changes = _count_changes(connection, account_id, week, of)
    plan = sum_plan_usage(connection, account_id, week, is_local=is_local)
    if not spend and not plan.calls and not any(changes.values()):
        return None
    # Findings have UTC days, as their audits.
    newest = find_last_day(connection, account_id, IN_UTC.day(now))
    realized = measure_all_realized(connection, account_id, {}, (week, before), newest)
    return {
        "first": week[0].isoformat(),
        "last": week[1].isoformat(),
        "whose": of.words,
        "has_utc_days": has_utc_days(connection, account_id, of.zone, (oldest, today)),
        "spend_usd": str(spend),
        "previous_usd": str(previous),
        "gap": find_gap(
            connection, account_id, (Period(*before), Period(*week)), is_local=is_local
        ),
        "plan_calls": plan.calls,
        "plan_value_usd": str(plan.value_usd),
        "findings": _list_findings(connection, account_id),
        **changes,
        "realized_usd": str(realized.month_usd) if realized.measured else None,
        "realized_total_usd": str(realized.total_usd) if realized.measured else None,
        "budgets": [
            _describe(state)
            for state in list_states(connection, account_id, today, is_local=is_local)[
                :_LISTED_BUDGETS
            ]
        ],
    }


def _list_findings(connection: Connection, account_id: str) -> list[dict[str, str | None]]:
    unresolved = (
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        AccountFinding.monthly_usd > 0,
    )
    columns = (
        *(AccountFinding.detector, AccountFinding.kind, AccountFinding.suggested_model),
        *(AccountFinding.monthly_usd, AccountFinding.confidence),
    )
    order = (AccountFinding.monthly_usd.desc(), AccountFinding.id)
    query = select(*columns).where(*unresolved).order_by(*order).limit(_LISTED_FINDINGS)
    return [
        {
            "detector": row.detector,
            "kind": row.kind,
            "suggested_model": row.suggested_model,
            "monthly_usd": str(row.monthly_usd),
            "confidence": row.confidence,
        }
        for row in connection.execute(query)
    ]


def _count_changes(
    connection: Connection, account_id: str, week: tuple[date, date], of: AccountDays
) -> dict[str, int]:
    """Return how many findings were new, came back, or were fixed in the week."""
    begin, end = of.begin(week[0]), of.begin(week[1] + _DAY)
    own = AccountFinding.account_id == account_id
    first = (
        select(func.min(FindingRecord.audited_at).label("at"))
        .join(AccountFinding, AccountFinding.id == FindingRecord.account_finding_id)
        .where(own)
        .group_by(FindingRecord.account_finding_id)
        .subquery()
    )
    new = select(func.count()).where(first.c.at >= begin, first.c.at < end)
    changed = (
        select(FindingChange.after, func.count(func.distinct(FindingChange.account_finding_id)))
        .join(AccountFinding, AccountFinding.id == FindingChange.account_finding_id)
        .where(own, FindingChange.changed_at >= begin, FindingChange.changed_at < end)
        .where(FindingChange.after.in_((FIXED, RETURNED)))
        .group_by(FindingChange.after)
    )
    counts: Sequence[Any] = connection.execute(changed).all()
    found = {row[0]: int(row[1]) for row in counts}
    return {
        "new": connection.scalar(new) or 0,
        "returned": found.get(RETURNED, 0),
        "fixed": found.get(FIXED, 0),
    }


def _describe(state: BudgetState) -> dict[str, Any]:
    forecast = state.forecast_usd if state.is_forecast_over else None
    return {
        "route": state.route,
        "month": state.month.isoformat(),
        "amount_usd": str(state.amount_usd),
        "spend_usd": str(state.spend_usd),
        "forecast_usd": None if forecast is None else str(forecast),
    }
