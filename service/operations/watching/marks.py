"""What happened on the days of a chart: unusual spend, fixes, prices that changed, and deploys."""

import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Date,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    null,
    select,
    union_all,
)
from sqlalchemy.dialects.postgresql import JSONB

from detectors.wording.actions import title
from detectors.wording.figures import counted, usd
from detectors.wording.labels import shortened
from detectors.wording.names import NO_ROUTE
from service.models.audits.audit_settings import AuditSettings
from service.models.base import Executor
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.calls.account_findings import FIXED, RETURNED, AccountFinding, FindingChange
from service.models.calls.daily_spend import SpendGroup, within_days
from service.models.calls.finding_list import FINDING_LABELS, matches_findings
from service.models.calls.spend import Selection, iter_spend
from service.models.operations.chart_marks import ChartMark
from service.models.operations.price_updates import PriceUpdate
from service.models.watching.watches import UnusualDay
from service.operations.price_book import VERSION, list_price_changes
from service.operations.watching.unusual_days import ACCOUNT

UNUSUAL: Final = "unusual"
NOTED, PRICES = "noted", "prices"
_DAY: Final = timedelta(days=1)
_AT: Final = "at"
_LONGEST_NAME: Final = 40
_MOST_CHANGES: Final = 100
# Of those with list prices that may have changed: the most expensive of the range.
_MOST_MODELS: Final = 50
_MOST_PROVIDERS: Final = 8
_MOST_PRICES: Final = 3  # of a day, in words
_UPDATE, _TERMS, _MODEL, _PROVIDER = "update", "terms", "model", "provider"
# What the title of a finding is from.
_TITLED: Final = ("detector", "kind", "route", "model", "suggested_model", "confidence")


class Mark(NamedTuple):
    """What happened on a day, and in words.

    `unusual` spend, a finding that was `fixed` or `returned`, what the account has `noted`, such as
    a deploy, and `prices`: its own that begin or end, and list prices that changed.
    """

    kind: str
    words: str


def list_marks(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str],
    of: AccountDays = IN_UTC,
) -> Mapping[date, Sequence[Mark]]:
    """Return the marks of each day of a range that has any: of the account, or of `only`.

    Prices begin with a day in UTC: they are marked on the day on which that is here.
    """
    marks = defaultdict[date, list[Mark]](list)
    labels = tuple(name for name in only if name in FINDING_LABELS)
    given: dict[str, Any] = {f"only_{name}": only[name] for name in labels}
    given |= {"account_id": account_id, "first": days[0], "last": days[1]}
    given |= {"begin": of.begin(days[0]), "end": of.begin(days[1] + _DAY)}
    is_local, has_findings = of.is_local, len(labels) == len(only)
    query = _marks_query(labels, has_findings=has_findings, is_local=is_local)
    used = defaultdict[str, list[str]](list)
    for kind, day, words, details in session.execute(query, given):
        if kind == UNUSUAL:
            series = [
                each
                for each in details
                if not only or (only.get(each["scope"]) == (each["name"] or ""))
            ]
            if len(only) < 2 and (series or not only):
                marks[day].append(Mark(UNUSUAL, _describe(series)))
        elif kind in (_UPDATE, _TERMS, _MODEL, _PROVIDER):
            used[kind].append(words)
        elif kind == NOTED:
            marks[day].append(Mark(NOTED, words))
        else:
            day = of.day(datetime.fromtimestamp(details.pop(_AT), UTC))
            reason = f" ({shortened(words, _LONGEST_NAME)})" if words else ""
            finding = SimpleNamespace(**details)
            mark = Mark(kind, f"{kind.capitalize()}: {title(finding)}{reason}")
            if mark not in marks[day]:
                marks[day].append(mark)
    for terms in used[_TERMS]:
        for changed_on, words in _list_own_prices(tomllib.loads(terms)):
            if days[0] <= (day := _here(changed_on, of)) <= days[1]:
                marks[day].append(Mark(PRICES, words))
    for changed_on, words in _list_list_prices(session, account_id, days, only, used, of):
        marks[changed_on].append(Mark(PRICES, words))
    return marks


# One statement, because each takes a round trip, and writing it takes longer than running it.
@cache
def _marks_query(labels: tuple[str, ...], *, has_findings: bool, is_local: bool) -> Select[Any]:
    """Return the kind, the day, the words and the details of what happened, in an order."""
    first, last = bindparam("first", type_=Date), bindparam("last", type_=Date)
    own: Any = bindparam("account_id")
    none, nothing = null(), cast(null(), JSONB)

    def part(number: int, *columns: Any, position: Any = none, key: Any = none) -> Any:
        return select(*columns, literal(number), cast(position, BigInteger), cast(key, Text))

    found = [
        part(0, literal(UNUSUAL), UnusualDay.day, literal(""), UnusualDay.series).where(
            UnusualDay.account_id == own, UnusualDay.day.between(first, last)
        ),
        part(1, literal(NOTED), ChartMark.day, ChartMark.words, nothing, key=ChartMark.id).where(
            ChartMark.account_id == own, ChartMark.day.between(first, last)
        ),
        part(2, literal(_TERMS), cast(null(), Date), AuditSettings.price_terms, nothing).where(
            AuditSettings.account_id == own
        ),
    ]
    update = cast(PriceUpdate.fetched_at, Text)
    found.append(
        part(3, literal(_UPDATE), none, update, nothing).where(PriceUpdate.version == VERSION)
    )
    for label, most in ((_MODEL, _MOST_MODELS), (_PROVIDER, _MOST_PROVIDERS)):
        names = part(3, literal(label), none, SpendGroup.value, nothing).where(
            SpendGroup.account_id == own,
            SpendGroup.label == label,
            within_days(SpendGroup, first, last, is_local=is_local),
        )
        ranked = names.group_by(SpendGroup.value).order_by(func.sum(SpendGroup.cost_usd).desc())
        found.append(ranked.limit(most))
    if has_findings:
        # An audit notices a fix two weeks after it.
        is_noticed = and_(FindingChange.after == FIXED, FindingChange.changed_by == "")
        is_noticed = and_(is_noticed, AccountFinding.fixed_at.is_not(None))
        at = case((is_noticed, AccountFinding.fixed_at), else_=FindingChange.changed_at)
        named = [each for name in _TITLED for each in (name, getattr(AccountFinding, name))]
        named += [_AT, func.extract("epoch", at)]
        changes = part(
            4,
            *(FindingChange.after, none, FindingChange.reason, func.jsonb_build_object(*named)),
            position=-FindingChange.id,
        )
        changes = changes.join(
            AccountFinding, AccountFinding.id == FindingChange.account_finding_id
        )
        changes = changes.where(
            AccountFinding.account_id == own,
            FindingChange.after.in_((FIXED, RETURNED)),
            at >= bindparam("begin"),
            at < bindparam("end"),
            *matches_findings({name: bindparam(f"only_{name}") for name in labels}),
        )
        found.append(changes.order_by(FindingChange.id.desc()).limit(_MOST_CHANGES))
    kind, day, words, details, *order = union_all(*found).subquery().c
    return select(kind, day, words, details).order_by(*order[:2], day, order[2])


def _list_own_prices(terms: Any, name: str = "") -> Iterator[tuple[date, str]]:
    """Yield the days on which negotiated rates and discounts begin, and those after their last.

    `terms` are a part of the parsed file, below the name of a provider or a model.
    """
    if isinstance(terms, list):
        for each in terms:
            yield from _list_own_prices(each, name)
    elif isinstance(terms, dict):
        if isinstance(terms.get("from"), date):
            yield terms["from"], f"Your prices for {name} begin"
        if isinstance(terms.get("until"), date):
            yield terms["until"] + timedelta(days=1), f"Your prices for {name} end"
        for key, each in terms.items():
            yield from _list_own_prices(each, shortened(key, _LONGEST_NAME))


def _list_list_prices(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str],
    used: Mapping[str, Sequence[str]],
    of: AccountDays,
) -> Iterator[tuple[date, str]]:
    """Yield the days on which the list price of a model changed that has spend in the range."""
    update, terms = ("".join(used[kind]) for kind in (_UPDATE, _TERMS))
    providers, models = (
        [only[label]] if label in only else used[label] for label in (_PROVIDER, _MODEL)
    )
    changes = [
        (model, day, words)
        for model, changed_on, words in list_price_changes(
            session, update, terms, product(providers, models)
        )
        if days[0] <= (day := _here(changed_on, of)) <= days[1]
    ]
    if not changes:
        return
    # Not every provider of the account has served every model.
    among, keys = {model for (_, model), _, _ in changes}, (_MODEL, _PROVIDER)
    spent = Selection(*days, keys=keys, only=only, among=among, is_brief=True)
    spent = replace(spent, is_local=of.is_local)
    paid = {line.key: line.sums.cost_usd for line in iter_spend(session, account_id, spent)}
    changed: dict[date, list[tuple[Any, str]]] = defaultdict(list)
    for (provider, model), changed_on, words in changes:
        if cost := paid.get((model, provider)):
            name = shortened(f"{provider} {model}", _LONGEST_NAME)
            changed[changed_on].append((cost, f"List price of {name} changed: {words}"))
    for changed_on, found in changed.items():
        found.sort(reverse=True)
        for _, words in found[:_MOST_PRICES]:
            yield changed_on, words
        if len(found) > _MOST_PRICES:
            yield changed_on, f"{counted(len(found) - _MOST_PRICES, 'more list price')} changed"


def _here(changed_on: date, of: AccountDays) -> date:
    return of.day(datetime.combine(changed_on, time(), UTC))


def _describe(series: Sequence[Mapping[str, Any]]) -> str:
    if not series:
        return "Unusual spend"
    most = series[0]
    unnamed = "Account" if most["scope"] == ACCOUNT else NO_ROUTE
    name = shortened(most["name"], _LONGEST_NAME) if most["name"] else unnamed
    return f"Unusual: {name} {usd(most['spend_usd'])}, usually {usd(most['expected_usd'])}"
