"""Queries of an account's calls that a plan includes: their value, which isn't spend."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Date,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
)

from detectors.contract import PlanModel, PlanSums
from service.models.base import Executor
from service.models.calls.account_days import IN_UTC, AccountDays
from service.models.calls.call_files import CallFile
from service.models.calls.daily_spend import PlanRow, day_of, within_days
from service.models.calls.plans import Plan

MOST_MODELS: Final = 20
# By what usage is summed; a week is its Monday.
GROUPS: Final = ("provider", "route", "environment", "model", "week")
_ENDS: Final[tuple[Any, Any]] = (bindparam("first", type_=Date), bindparam("last", type_=Date))
_WINDOW: Final = timedelta(hours=5)
_DAY: Final = timedelta(days=1)
_ROWS: Final = 1_000  # read at a time


class PlanGroup(NamedTuple):
    """The calls of one tool, project, environment, model or week."""

    name: Any
    sums: PlanSums


class PlanWindow(NamedTuple):
    """Five hours from the first call's full hour, of one tool in one environment."""

    provider: str
    environment: str
    start: datetime
    calls: int
    tokens: int
    value_usd: Decimal

    @property
    def end(self) -> datetime:
        return self.start + _WINDOW


def sum_plan_usage(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
    *,
    is_local: bool = False,
) -> PlanSums:
    """Return the sums of some days' calls with these labels that a plan includes."""
    given = {"account_id": account_id, "first": days[0], "last": days[1]}
    given |= {f"only_{name}": value for name, value in only.items()}
    row = session.execute(_sum_query(tuple(only), is_local=is_local), given).one()
    return PlanSums(**_values(row._mapping))


@cache
def _sum_query(names: tuple[str, ...], *, is_local: bool) -> Select[Any]:
    query = select(*_sums()).select_from(PlanRow).join(CallFile, CallFile.id == PlanRow.file_id)
    only: dict[str, Any] = {name: bindparam(f"only_{name}") for name in names}
    return query.where(*_matches(bindparam("account_id"), _ENDS, only, is_local=is_local))


def list_plan_models(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
    *,
    is_local: bool = False,
) -> list[PlanModel]:
    """Return the most valuable models of these calls, at most `MOST_MODELS`."""
    keys = (PlanRow.provider, PlanRow.model)
    query = select(*keys, *_sums()).join(CallFile, CallFile.id == PlanRow.file_id)
    query = query.where(*_matches(account_id, days, only, is_local=is_local)).group_by(*keys)
    ranked = query.order_by(func.sum(PlanRow.value_usd).desc(), *keys).limit(MOST_MODELS)
    return [
        PlanModel(provider=row.provider, model=row.model, **_values(row._mapping))
        for row in session.execute(ranked)
    ]


def list_plan_groups(
    session: Executor,
    account_id: str,
    days: tuple[date, date],
    most: int,
    *,
    is_local: bool = False,
) -> Mapping[str, list[PlanGroup]]:
    """Return the groups by each of `GROUPS`: all weeks, newest first; of others the most valuable.

    One statement for all, because each takes a round trip.
    """
    found: dict[str, list[PlanGroup]] = {group: [] for group in GROUPS}
    given = {"account_id": account_id, "first": days[0], "last": days[1], "most": most}
    for row in session.execute(_groups_query(is_local=is_local), given):
        name = date.fromisoformat(row.name) if row.group == "week" else row.name
        found[row.group].append(PlanGroup(name, PlanSums(**_values(row._mapping))))
    return found


@cache
def _groups_query(*, is_local: bool) -> Select[Any]:
    ranked = []
    for group in GROUPS:
        day = day_of(PlanRow, is_local=is_local)
        week = cast(func.date_trunc("week", day), Date)
        key = week if group == "week" else getattr(PlanRow, group)
        order = key.desc() if group == "week" else func.sum(PlanRow.value_usd).desc()
        place = func.row_number().over(order_by=(order, key)).label("place")
        named = literal(group).label("group"), cast(key, Text).label("name")
        query = select(*named, place, *_sums()).join(CallFile, CallFile.id == PlanRow.file_id)
        own = _matches(bindparam("account_id"), _ENDS, {}, is_local=is_local)
        ranked.append(query.where(*own).group_by(key))
    found = union_all(*ranked).subquery()
    is_listed = or_(found.c.place <= bindparam("most"), found.c.group == "week")
    return select(found).where(is_listed).order_by(found.c.place)


def sum_covered(
    session: Executor, account_id: str, days: tuple[date, date], *, is_local: bool = False
) -> dict[str, Decimal]:
    """Return the value of each tool's calls on those of some days that a plan of it covers."""
    day = day_of(PlanRow, is_local=is_local)
    is_paid = exists().where(
        Plan.account_id == account_id,
        Plan.provider == PlanRow.provider,
        Plan.first_day <= day,
        func.coalesce(Plan.last_day, day) >= day,
    )
    query = select(PlanRow.provider, func.sum(PlanRow.value_usd))
    query = query.join(CallFile, CallFile.id == PlanRow.file_id).group_by(PlanRow.provider)
    own = _matches(account_id, days, {}, is_local=is_local)
    rows = session.execute(query.where(*own, is_paid))
    return {provider: value for provider, value in rows}


def lacks_hours(
    session: Executor, account_id: str, days: tuple[date, date], *, is_local: bool = False
) -> bool:
    """Check whether calls of some days are in no window: an earlier release stored no hours."""
    query = select(PlanRow.id).join(CallFile, CallFile.id == PlanRow.file_id)
    own = _matches(account_id, days, {}, is_local=is_local)
    query = query.where(*own, PlanRow.hour.is_(None))
    return session.execute(query.limit(1)).first() is not None


def iter_plan_windows(
    session: Executor, account_id: str, days: tuple[date, date], of: AccountDays = IN_UTC
) -> Iterator[PlanWindow]:
    """Yield the five-hour windows that begin on some days: of each tool and environment in turn.

    They begin and end at full hours, so the calls of an hour are all in one. The days before and
    after are read, too: a window that began before has the first calls of these days, and one that
    begins on the last has calls of the next. In zones of half hours, so has the hour at midnight.
    """
    keys = (PlanRow.provider, PlanRow.environment, PlanRow.day, PlanRow.hour)
    tokens = func.sum(PlanRow.prompt_tokens + PlanRow.completion_tokens)
    query = select(*keys, func.sum(PlanRow.calls), tokens, func.sum(PlanRow.value_usd))
    query = query.join(CallFile, CallFile.id == PlanRow.file_id).group_by(*keys).order_by(*keys)
    own = _matches(account_id, (days[0] - _DAY, days[1] + _DAY), {}, is_local=of.is_local)
    query = query.where(*own, PlanRow.hour.is_not(None))
    rows = session.execute(query, execution_options={"yield_per": _ROWS})
    return (each for each in _windows(rows) if days[0] <= of.day(each.start) <= days[1])


def _windows(hours: Iterable[Any]) -> Iterator[PlanWindow]:
    last: PlanWindow | None = None
    for provider, environment, day, hour, calls, tokens, value in hours:
        at = datetime.combine(day, time(hour), UTC)
        if last is None or last[:2] != (provider, environment) or at >= last.end:
            if last is not None:
                yield last
            last = PlanWindow(provider, environment, at, 0, 0, Decimal(0))
        last = last._replace(
            calls=last.calls + int(calls),
            tokens=last.tokens + int(tokens),
            value_usd=last.value_usd + value,
        )
    if last is not None:
        yield last


def _sums() -> list[ColumnElement[Any]]:
    names = PlanSums.__struct_fields__
    return [func.coalesce(func.sum(getattr(PlanRow, name)), 0).label(name) for name in names]


def _matches(
    account_id: Any, days: tuple[Any, Any], only: Mapping[str, Any], *, is_local: bool
) -> list[ColumnElement[bool]]:
    # The previous release, which merges files beside this one, leaves the lines of a merged file.
    is_counted = or_(CallFile.replaced_at.is_(None), CallFile.purged_at.is_not(None))
    own = [getattr(PlanRow, name) == value for name, value in only.items()]
    within = within_days(PlanRow, *days, is_local=is_local)
    return [PlanRow.account_id == account_id, within, is_counted, *own]


def _values(row: Any) -> dict[str, Any]:
    """Return the sums of a row; PostgreSQL sums large integers as decimals."""
    sums: dict[str, Any] = {name: int(row[name]) for name in PlanSums.__struct_fields__[:-1]}
    return sums | {"value_usd": Decimal(row["value_usd"])}
