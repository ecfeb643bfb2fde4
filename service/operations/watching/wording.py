"""The sentences and the data of notices about spend."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from detectors.wording.figures import counted, day, month, percent, usd, whole_usd
from detectors.wording.labels import inert, may_be_link
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.watching.budgets import FORECAST
from service.operations.watching.budgets import BudgetState
from service.operations.watching.unusual_days import ACCOUNT, UnusualSpend

_LISTED_SERIES: Final = 20
# The page about an unusual day shows the weeks before it, too.
_COMPARED: Final = timedelta(days=27)


def name_label(scope: str, name: str) -> str:
    """Name a route or a model, unless a program that shows it could make a link of its name."""
    return f"a {scope}" if may_be_link(name) else f"{scope} “{inert(name)}”"


def describe_day(
    when: date, found: Sequence[UnusualSpend], of: AccountDays = IN_UTC
) -> dict[str, Any]:
    """Return the data of the notice about an unusual day."""
    return {
        "summary": _summarize(when, found, of.words),
        "path": f"/spend?{urlencode(_shown(when, found))}",
        "day": when.isoformat(),
        **_describe_ends(when, when + timedelta(days=1), of),
        "series": describe_series(found),
        "series_count": len(found),
    }


def _describe_ends(first: date, after: date, of: AccountDays) -> dict[str, str]:
    """Return whose days they are, and when the first begins and the last ends, in UTC."""
    begin, end = (of.begin(day).strftime("%Y-%m-%dT%H:%M:%SZ") for day in (first, after))
    return {"time_zone": of.name, "begins_at": begin, "ends_at": end}


def _shown(when: date, found: Sequence[UnusualSpend]) -> dict[str, str]:
    """Return the range and the filter of /spend: the day after the weeks that it is compared with.

    Unless the account's day was unusual, only the route or model with the largest excess is shown.
    """
    days = {"from": f"{when - _COMPARED:%Y-%m-%d}", "to": f"{when:%Y-%m-%d}"}
    is_all = any(each.scope == ACCOUNT for each in found)
    return days if is_all else {**days, found[0].scope: found[0].name}


def describe_series(found: Sequence[UnusualSpend]) -> list[dict[str, Any]]:
    """Return what was unusual, ranked by its excess, with dollars in cents."""
    return [
        {
            "scope": each.scope,
            "name": each.name or None,
            "spend_usd": round(float(each.usd), 2),
            "expected_usd": round(float(each.band.expected), 2),
            "upper_usd": round(float(each.band.upper), 2),
        }
        for each in found[:_LISTED_SERIES]
    ]


def _summarize(when: date, found: Sequence[UnusualSpend], whose: str) -> str:
    account = next((each for each in found if each.scope == ACCOUNT), None)
    others = [each for each in found if each is not account]
    sentences = []
    if account is not None:
        sentences.append(f"You spent {_compare(account)} on {day(when)} ({whose}).")
    if others:
        first = f"{name_label(others[0].scope, others[0].name)} cost {_compare(others[0])}"
        sentences.append(
            f"{first[0].upper()}{first[1:]}{'' if account else f' on {day(when)} ({whose})'}."
        )
    if len(others) > 1:
        sentences.append(f"{counted(len(others) - 1, 'other route or model', 'others')} too.")
    return " ".join(sentences)


def _compare(each: UnusualSpend) -> str:
    usual = f"usually about {usd(each.band.expected)}" if each.band.expected else "usually nothing"
    return f"{usd(each.usd)} ({usual})"


def describe_budget(state: BudgetState, threshold: str, of: AccountDays = IN_UTC) -> dict[str, Any]:
    """Return the data of the notice that a budget has reached a threshold."""
    forecast = state.forecast_usd
    next_month = (state.month + timedelta(days=31)).replace(day=1)
    return {
        "summary": _state(state, threshold, of.words),
        "path": "/settings/budgets",
        "budget_id": state.budget_id,
        "route": state.route,
        "month": f"{state.month:%Y-%m}",
        **_describe_ends(state.month, next_month, of),
        "threshold": threshold,
        "amount_usd": float(state.amount_usd),
        "spend_usd": round(float(state.spend_usd), 2),
        "forecast_usd": None if forecast is None else round(float(forecast), 2),
    }


def _state(state: BudgetState, threshold: str, whose_days: str) -> str:
    whose = name_label("route", state.route) if state.route is not None else "your account"
    budget = f"the {usd(state.amount_usd)} budget of {whose} for {month(state.month)}"
    budget += f" ({whose_days})"
    if threshold == FORECAST and state.forecast_usd is not None:
        return f"{whole_usd(state.forecast_usd)} forecast, which is over {budget}."
    return f"{usd(state.spend_usd)} spent, {percent(state.percent)} of {budget}."
