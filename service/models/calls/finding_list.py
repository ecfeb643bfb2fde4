"""An account's findings by state and labels: lists of them, and their potential savings."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    bindparam,
    case,
    func,
    literal,
    or_,
    select,
    tuple_,
    union_all,
)
from sqlalchemy.orm import InstrumentedAttribute, Session

from service.models.audits.audits import ACCOUNT, DONE, Audit
from service.models.base import Executor
from service.models.calls.account_audits import DEFAULT_WINDOW
from service.models.calls.account_findings import (
    STATES,
    UNRESOLVED,
    AccountFinding,
    FindingChange,
    FindingRecord,
    FindingSaving,
)
from service.models.calls.spend import Periods

UNRESOLVED_NAME: Final = "unresolved"
# What a filter of the list may name, and the states that it shows.
FILTERS: Final = {
    UNRESOLVED_NAME: UNRESOLVED,
    **{state: (state,) for state in STATES},
    "all": STATES,
}
# Other columns that a list can be filtered by.
KEYS: Final[Sequence[str]] = ("detector", "route", "model", "assignee")
_COLUMNS: Final = AccountFinding.__table__.columns
_MOST_VALUES: Final = 200
# The labels of calls that findings have, too.
FINDING_LABELS: Final = ("route", "provider", "model")
# Without a route, the route of a finding is its model.
OWN_ROUTE: Final = case(
    (AccountFinding.route == AccountFinding.model, ""), else_=AccountFinding.route
)
_BATCH: Final = 500


# What a list without a cursor can be sorted by.
ORDERS: Final[Mapping[str, InstrumentedAttribute[Any]]] = {
    "detector": AccountFinding.detector,
    "route": AccountFinding.route,
    "state": AccountFinding.state,
    "assignee": AccountFinding.assignee,
    "seen": AccountFinding.last_seen,
    "savings": AccountFinding.monthly_usd,
}
_FALLING: Final = ("seen", "savings")  # unless they are turned around


class FindingCursor(NamedTuple):
    """The finding after which a list continues."""

    monthly_usd: Decimal
    id: str


@dataclass(frozen=True, kw_only=True)
class FindingFilter:
    """The name of some states, and the values that other columns must have.

    `has_savings` excludes findings that the latest audit lacks, which are not fixed yet.
    """

    state: str = UNRESOLVED_NAME
    only: Mapping[str, str] = field(default_factory=dict)
    has_savings: bool = False
    search: str = ""  # what the route or the model contains

    def matches(self, account_id: str) -> list[ColumnElement[bool]]:
        own = [_matches(name, value) for name, value in self.only.items()]
        states = AccountFinding.state.in_(FILTERS[self.state])
        found = [AccountFinding.account_id == account_id, states, *own]
        if self.has_savings:
            found.append(AccountFinding.monthly_usd > 0)
        if self.search:
            columns = (AccountFinding.route, AccountFinding.model)
            found.append(or_(*(each.icontains(self.search, autoescape=True) for each in columns)))
        return found


def list_account_findings(
    session: Executor,
    account_id: str,
    wanted: FindingFilter,
    limit: int,
    after: FindingCursor | None = None,
    order: str = "",
) -> Sequence[Row[Any]]:
    """Return the columns of an account's findings, most savings first; ties are sorted by ID.

    Another order is the name of one of `ORDERS`, turned around by a leading "-".
    """
    query = select(*_COLUMNS).where(*wanted.matches(account_id))
    if after is not None:
        position = tuple_(-AccountFinding.monthly_usd, AccountFinding.id)
        query = query.where(position > (-after.monthly_usd, after.id))
    first: list[ColumnElement[Any]] = []
    if order:
        column = ORDERS[order.removeprefix("-")]
        is_falling = (order.removeprefix("-") in _FALLING) != order.startswith("-")
        first = [column.desc() if is_falling else column.asc()]
    ranks = (*first, AccountFinding.monthly_usd.desc(), AccountFinding.id)
    return session.execute(query.order_by(*ranks).limit(limit)).all()


def _matches(name: str, value: str) -> ColumnElement[bool]:
    """Match a finding by its label; without tag and endpoint, its route is its model."""
    if name == "route" and not value:
        return AccountFinding.route == AccountFinding.model
    column: ColumnElement[str] = getattr(AccountFinding, name)
    return column == value


def iter_account_findings(
    session: Session, account_id: str, wanted: FindingFilter
) -> Iterator[Sequence[Row[Any]]]:
    """Yield all findings in batches, in the same order."""
    after = None
    while batch := list_account_findings(session, account_id, wanted, _BATCH, after):
        yield batch
        after = FindingCursor(batch[-1].monthly_usd, batch[-1].id)


def has_more_findings(
    session: Executor, account_id: str, wanted: FindingFilter, number: int
) -> bool:
    """Check whether the filter shows more findings than this number."""
    some = select(AccountFinding.id).where(*wanted.matches(account_id)).limit(number + 1)
    return (session.scalar(select(func.count()).select_from(some.subquery())) or 0) > number


def count_by_state(session: Executor, account_id: str) -> dict[str, int]:
    """Count the account's findings in each state; of those to fix, the ones with savings."""
    is_counted = or_(AccountFinding.state.not_in(UNRESOLVED), AccountFinding.monthly_usd > 0)
    query = select(AccountFinding.state, func.count()).where(
        AccountFinding.account_id == account_id, is_counted
    )
    rows = session.execute(query.group_by(AccountFinding.state))
    return {row[0]: row[1] for row in rows}


def list_values(session: Executor, account_id: str) -> dict[str, list[str]]:
    """Return the values of each of `KEYS` that the account's findings have, most savings first."""
    values: dict[str, list[str]] = {key: [] for key in KEYS}
    for key, value in session.execute(_values_query(), {"account_id": account_id}):
        values[key].append(value)
    return values


@cache
def _values_query() -> Select[Any]:
    ranked = []
    for key in KEYS:
        column = getattr(AccountFinding, key)
        order = (func.sum(AccountFinding.monthly_usd).desc(), column)
        place = func.row_number().over(order_by=order)
        query = select(literal(key).label("key"), column.label("value"), place.label("place"))
        query = query.where(AccountFinding.account_id == bindparam("account_id"), column != "")
        ranked.append(query.group_by(column))
    found = union_all(*ranked).subquery().c
    return select(found.key, found.value).where(found.place <= _MOST_VALUES).order_by(found.place)


def matches_findings(only: Mapping[str, Any]) -> list[ColumnElement[bool]]:
    """Match the findings of calls with these labels; findings have no environment."""
    columns = {"route": OWN_ROUTE, "provider": AccountFinding.provider}
    columns["model"] = AccountFinding.model
    return [columns[name] == value for name, value in only.items() if name in FINDING_LABELS]


def sum_confidences(
    session: Executor, account_id: str, only: Mapping[str, str]
) -> Mapping[str, Decimal]:
    """Return the savings per month of unresolved findings, by confidence; they may overlap."""
    query = select(AccountFinding.confidence, func.sum(AccountFinding.monthly_usd)).where(
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        *matches_findings(only),
    )
    rows = session.execute(query.group_by(AccountFinding.confidence))
    return {row[0]: row[1] for row in rows}


class Potential(NamedTuple):
    """The largest of a route's unresolved findings, and how many of them have savings.

    They may share calls, so their sum could be more than the route costs.
    """

    findings: int
    usd: Decimal
    is_monthly: bool
    confidence: str


def find_potential(
    session: Executor, account_id: str, only: Mapping[str, str], routes: Collection[str]
) -> Mapping[str, Potential]:
    """Return the potential savings of those routes that have any."""
    query = _potential_query(tuple(name for name in only if name in FINDING_LABELS))
    given = {"account_id": account_id, "routes": routes}
    given |= {f"only_{name}": value for name, value in only.items()}
    return {row[0]: Potential(*row[1:]) for row in session.execute(query, given)}


@cache
def _potential_query(labels: tuple[str, ...]) -> Select[Any]:
    is_condition = AccountFinding.confidence == "CONDITIONAL"
    order = (AccountFinding.monthly_usd.desc(), is_condition)
    query = select(
        OWN_ROUTE.label("route"),
        func.count().over(partition_by=OWN_ROUTE).label("findings"),
        AccountFinding.monthly_usd,
        AccountFinding.is_monthly,
        AccountFinding.confidence,
        func.row_number().over(partition_by=OWN_ROUTE, order_by=order).label("place"),
    ).where(
        AccountFinding.account_id == bindparam("account_id"),
        AccountFinding.state.in_(UNRESOLVED),
        AccountFinding.monthly_usd > 0,
        OWN_ROUTE.in_(bindparam("routes", expanding=True)),
        *matches_findings({name: bindparam(f"only_{name}") for name in labels}),
    )
    *shown, place = query.subquery().c
    return select(*shown).where(place == 1)


def sum_by_route(session: Executor, account_id: str) -> Mapping[tuple[str, str], Decimal]:
    """Return the savings per month of unresolved findings, by route and detector."""
    query = select(OWN_ROUTE, AccountFinding.detector, func.sum(AccountFinding.monthly_usd)).where(
        AccountFinding.account_id == account_id,
        AccountFinding.state.in_(UNRESOLVED),
        AccountFinding.monthly_usd > 0,
    )
    rows = session.execute(query.group_by(OWN_ROUTE, AccountFinding.detector))
    return {(row[0], row[1]): row[2] for row in rows}


class ComparedSavings(NamedTuple):
    """What a finding could have saved in two periods; 0 where it had no flagged calls."""

    finding: AccountFinding
    before_usd: Decimal
    after_usd: Decimal


def compare_findings(
    session: Session, account_id: str, periods: Periods, limit: int
) -> list[ComparedSavings]:
    """Return the findings with savings in either period whose savings per day differ most."""
    days = [FindingSaving.day.between(each.first, each.last) for each in periods]
    before, after = (
        func.coalesce(func.sum(FindingSaving.saving_usd).filter(each), 0) for each in days
    )
    change = func.abs(before / periods[0].days - after / periods[1].days)
    query = (
        select(AccountFinding, before, after)
        .join(FindingSaving, FindingSaving.account_finding_id == AccountFinding.id)
        .where(AccountFinding.account_id == account_id, or_(*days))
        .group_by(AccountFinding.id)
        .having(before + after > 0)
        .order_by(change.desc(), AccountFinding.id)
    )
    return [ComparedSavings(*row) for row in session.execute(query.limit(limit))]


def find_first_day(session: Executor, account_id: str) -> date | None:
    """Return the first day whose savings are known: the audits of the account see 30 days."""
    query = select(func.min(FindingSaving.day)).join(
        AccountFinding, AccountFinding.id == FindingSaving.account_finding_id
    )
    return session.scalar(query.where(AccountFinding.account_id == account_id))


_MOST_POINTS: Final = 60
_MOST_CHANGES: Final = 100


class Point(NamedTuple):
    """The potential savings of a finding in one audit of the account; 0 if the audit lacks it."""

    audited_at: datetime
    calls: int
    monthly_usd: Decimal
    observed_usd: Decimal
    projection: str | None


def find_account_finding(
    session: Session, account_id: str, finding_id: str
) -> AccountFinding | None:
    """Return a finding of the account."""
    own = (AccountFinding.account_id == account_id, AccountFinding.id == finding_id)
    return session.scalars(select(AccountFinding).where(*own)).one_or_none()


def list_points(session: Executor, finding: AccountFinding) -> Sequence[Point]:
    """Return the latest audits since the finding was first found, oldest first."""
    is_found = (FindingRecord.audit_id == Audit.id) & (
        FindingRecord.account_finding_id == finding.id
    )
    audited_at = func.coalesce(Audit.finished_at, Audit.created_at)
    query = (
        select(
            audited_at.label("audited_at"),
            func.coalesce(FindingRecord.calls, 0),
            func.coalesce(FindingRecord.monthly_usd, 0),
            func.coalesce(FindingRecord.observed_usd, 0),
            Audit.projection,
        )
        .join_from(Audit, FindingRecord, is_found, isouter=True)
        .where(
            Audit.account_id == finding.account_id,
            Audit.source == ACCOUNT,
            Audit.status == DONE,
            Audit.window_days == DEFAULT_WINDOW,
        )
        .order_by(audited_at.desc(), Audit.id)
        .limit(_MOST_POINTS)
    )
    points = [Point(*row) for row in session.execute(query)][::-1]
    first = next((at for at, point in enumerate(points) if point.calls), len(points))
    return points[first:]


def list_days(session: Executor, finding: AccountFinding, since: date) -> Mapping[date, Decimal]:
    """Return what the finding could have saved on each day of its calls."""
    query = select(FindingSaving.day, FindingSaving.saving_usd).where(
        FindingSaving.account_finding_id == finding.id, FindingSaving.day >= since
    )
    return {row[0]: row[1] for row in session.execute(query)}


def list_changes(session: Session, finding: AccountFinding) -> Sequence[FindingChange]:
    """Return the latest changes of the finding, newest first."""
    own = FindingChange.account_finding_id == finding.id
    query = select(FindingChange).where(own).order_by(FindingChange.id.desc())
    return session.scalars(query.limit(_MOST_CHANGES)).all()
