"""/route and /model: the spend, findings and models or routes of one route or model.

Names are query parameters, because a tag may contain anything that a path must not.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from flask import render_template, request

from detectors.charts import HoursOfDay, calls_by_hour
from detectors.contract import Traffic, add_hours, add_latencies, percentile_ms
from detectors.wording.figures import latency
from service.connections import list_priced
from service.models.calls.daily_spend import PlanRow
from service.models.calls.finding_list import FindingFilter, list_account_findings
from service.models.calls.plan_usage import sum_plan_usage
from service.models.calls.spend import BY_COST, MAX_DAYS, Selection, find_last_day, sum_spend
from service.models.calls.traffic import find_traffic
from service.models.connections.unsent import has_unpriced
from service.web.auth.callers import current_caller
from service.web.auth.visitors import PrivatePages, current_days, require_visitor
from service.web.http.current import get_session
from service.web.pages.findings.home import STATE_WORDS, add_realized
from service.web.pages.spend.charts import UNNAMED, Days, chart_spend, read_days
from service.web.pages.spend.page import SHOWN, read_groups
from service.web.pages.spend.query import Query, read_query

_FINDINGS: Final = 20
_SUGGESTED: Final = 12
_KNOWN: Final = 1_000  # names that a mistyped one is compared with


@dataclass(frozen=True)
class Kind:
    """A kind of page: the parameter with its name, what else identifies it, and its groupings.

    `others` is what its calls are listed by: the models of a route, the routes of a model.
    """

    name: str
    others: str
    keys: Sequence[str]
    groups: Sequence[str]


ROUTE: Final = Kind("route", "model", ("route",), ("model", "provider", "environment"))
MODEL: Final = Kind("model", "route", ("model", "provider"), ("route", "environment"))

blueprint = PrivatePages("spend_details", __name__)


@blueprint.get("/route")
@require_visitor
def route() -> str | tuple[str, int]:
    return _show(ROUTE)


@blueprint.get("/model")
@require_visitor
def model() -> str | tuple[str, int]:
    return _show(MODEL)


def _show(kind: Kind) -> str | tuple[str, int]:
    session, account_id = get_session(), current_caller().account_id
    query = read_query(request.args, current_days(), path=f"/{kind.name}", groups=kind.groups)
    today, is_local = query.of.today(), query.of.is_local
    if kind.name not in query.only:
        return _suggest(kind, query)
    ranking = sum_spend(session, account_id, query.selection, order=BY_COST, limit=SHOWN)
    table, listed = read_groups(query, ranking)
    query = replace(query, table=table.state)
    own = {name: value for name, value in query.only.items() if name in kind.keys}
    # A report of tokens may have no number of calls.
    has_calls = bool(ranking.totals.calls or ranking.totals.cost_usd)
    last_day = None
    if not has_calls:
        last_day = find_last_day(session, account_id, today, query.only, is_local=is_local)
    days = query.first, query.last
    plan = sum_plan_usage(session, account_id, days, query.only, is_local=is_local)
    if last_day is None and not (has_calls or plan.calls):
        last_day = find_last_day(session, account_id, today, query.only, PlanRow, is_local=is_local)
    found = list_account_findings(
        session, account_id, FindingFilter(state="all", only=own), _FINDINGS
    )
    if last_day is None and not (has_calls or found or plan.calls):
        return _suggest(kind, query)
    read = read_days(query) if has_calls else Days({}, "")
    return render_template(
        "pages/spend/details.html",
        kind=kind,
        query=query,
        own=own,
        link=lambda value: query.page_url(value) or query.narrowed_url(value),
        day_link=lambda first, last: query.between(first, last).url(),
        has_unpriced=has_unpriced(session, account_id, days, list_priced()),
        ranking=ranking,
        gap=read.gap,
        table=table,
        listed=listed,
        plan=plan,
        chart=chart_spend(query, ranking, read) if has_calls else None,
        last_day=last_day,
        lines=add_realized(found),
        traffic=describe_traffic(kind.others, own),
        states=STATE_WORDS,
        unnamed=UNNAMED,
        today=today,
    )


def _suggest(kind: Kind, query: Query) -> str | tuple[str, int]:
    """List names to choose from; for an unknown name, the closest and a status of 404."""
    wanted: str | None = request.args.get(kind.name)
    today = query.of.today()
    session, account_id = get_session(), current_caller().account_id
    lately = Selection(today - timedelta(days=MAX_DAYS), today, keys=(kind.name,), is_brief=True)
    lately = replace(lately, is_local=query.of.is_local)
    known = sum_spend(session, account_id, lately, order=BY_COST, limit=_KNOWN)
    names = [group.value for group in known.groups]
    near = [] if wanted is None else get_close_matches(wanted, names, _SUGGESTED, cutoff=0.5)
    context: Mapping[str, Any] = {
        "kind": kind,
        "wanted": wanted,
        "filters": {key: value for key, value in query.only.items() if key != kind.name},
        "near": near,
        "names": near or names[:_SUGGESTED],
        "link": replace(query, only={}, group=kind.name).page_url,
        "unnamed": UNNAMED,
    }
    page = render_template("pages/spend/no_details.html", **context)
    return page if wanted is None else (page, 404)


_SHOWN: Final = 20
_MEDIAN, _HIGH = 50, 95


@dataclass(frozen=True)
class Latency:
    """The latencies of some calls; `name` is their model or route, or None for all."""

    name: str | None
    calls: int
    median: str
    high: str


@dataclass(frozen=True)
class TrafficSection:
    """What the page shows, and the times of the first and last call that it is from."""

    first_call: datetime
    last_call: datetime
    chart: HoursOfDay
    latencies: Sequence[Latency]  # of all calls first, empty if none has one


def describe_traffic(others: str, only: Mapping[str, str]) -> TrafficSection | None:
    """Return the hours and latencies of a route or a model, by its models or routes.

    Return None if the latest audit of the account lacks it.
    """
    window = find_traffic(get_session(), current_caller().account_id, only)
    if window is None:
        return None
    return TrafficSection(
        first_call=window.first_call,
        last_call=window.last_call,
        chart=calls_by_hour(add_hours(window.traffic)),
        latencies=_list_latencies(others, window.traffic),
    )


def _list_latencies(others: str, traffic: Sequence[Traffic]) -> Sequence[Latency]:
    """Return the latencies of all calls, and of the models or routes with the most calls."""
    named: dict[str, list[Traffic]] = defaultdict(list)
    for each in traffic:
        named[getattr(each, others)].append(each)
    lines = [_measure(None, traffic)]
    if len(named) > 1:
        lines += [_measure(name, own) for name, own in named.items()]
    return [line for line in lines if line is not None][: _SHOWN + 1]


def _measure(name: str | None, traffic: Sequence[Traffic]) -> Latency | None:
    latencies = add_latencies(traffic)
    median, high = (percentile_ms(latencies, percent) for percent in (_MEDIAN, _HIGH))
    if median is None or high is None:
        return None
    return Latency(name, sum(latencies.values()), latency(median), latency(high))
