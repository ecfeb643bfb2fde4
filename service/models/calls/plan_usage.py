"""Queries of an account's calls that a plan includes: their value, which is no spend."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Date, cast, func, or_, select
from sqlalchemy.orm import Session

from detectors.contract import PlanModel, PlanSums
from service.models.calls.call_files import CallFile
from service.models.calls.daily_spend import PlanRow

MOST_MODELS: Final = 20
# By what usage is summed, and the column of it; a week is its Monday.
GROUPS: Final[Mapping[str, Any]] = {
    "provider": PlanRow.provider,
    "route": PlanRow.route,
    "environment": PlanRow.environment,
    "model": PlanRow.model,
    "week": cast(func.date_trunc("week", PlanRow.day), Date),
}
_WINDOW: Final = timedelta(hours=5)


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
    session: Session | Connection,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
) -> PlanSums:
    """Return the sums of some days' calls with these labels that a plan includes."""
    query = select(*_sums()).select_from(PlanRow).join(CallFile, CallFile.id == PlanRow.file_id)
    row = session.execute(query.where(*_matches(account_id, days, only))).one()
    return PlanSums(**_values(row._mapping))


def list_plan_models(
    session: Session | Connection,
    account_id: str,
    days: tuple[date, date],
    only: Mapping[str, str] = MappingProxyType({}),
) -> list[PlanModel]:
    """Return the most valuable models of these calls, at most `MOST_MODELS`."""
    keys = (PlanRow.provider, PlanRow.model)
    query = select(*keys, *_sums()).join(CallFile, CallFile.id == PlanRow.file_id)
    query = query.where(*_matches(account_id, days, only)).group_by(*keys)
    ranked = query.order_by(func.sum(PlanRow.value_usd).desc(), *keys).limit(MOST_MODELS)
    return [
        PlanModel(provider=row.provider, model=row.model, **_values(row._mapping))
        for row in session.execute(ranked)
    ]


def list_plan_groups(
    session: Session, account_id: str, days: tuple[date, date], group: str, most: int
) -> list[PlanGroup]:
    """Return the groups of a key of `GROUPS`: weeks, newest first; of others the most valuable."""
    key = GROUPS[group].label("name")
    query = select(key, *_sums()).join(CallFile, CallFile.id == PlanRow.file_id)
    query = query.where(*_matches(account_id, days, {})).group_by(key)
    order = key.desc() if group == "week" else func.sum(PlanRow.value_usd).desc()
    found = session.execute(query.order_by(order, key).limit(most))
    return [PlanGroup(row.name, PlanSums(**_values(row._mapping))) for row in found]


def list_plan_windows(
    session: Session, account_id: str, days: tuple[date, date]
) -> list[PlanWindow]:
    """Return the five-hour windows of some days, oldest first.

    They begin and end at full hours, so the calls of an hour are all in one. Lines of an earlier
    release have no hour, and are in none.
    """
    keys = (PlanRow.provider, PlanRow.environment, PlanRow.day, PlanRow.hour)
    tokens = func.sum(PlanRow.prompt_tokens + PlanRow.completion_tokens)
    query = select(*keys, func.sum(PlanRow.calls), tokens, func.sum(PlanRow.value_usd))
    query = query.join(CallFile, CallFile.id == PlanRow.file_id).group_by(*keys).order_by(*keys)
    rows = session.execute(query.where(*_matches(account_id, days, {}), PlanRow.hour.is_not(None)))
    return sorted(_windows(rows.all()), key=lambda each: (each.start, each[:2]))


def _windows(hours: Sequence[Any]) -> list[PlanWindow]:
    found: list[PlanWindow] = []
    for provider, environment, day, hour, calls, tokens, value in hours:
        at = datetime.combine(day, time(hour), UTC)
        last = found[-1] if found else None
        if last is None or last[:2] != (provider, environment) or at >= last.end:
            found.append(PlanWindow(provider, environment, at, 0, 0, Decimal(0)))
        last = found[-1]
        found[-1] = last._replace(
            calls=last.calls + int(calls),
            tokens=last.tokens + int(tokens),
            value_usd=last.value_usd + value,
        )
    return found


def _sums() -> list[ColumnElement[Any]]:
    names = PlanSums.__struct_fields__
    return [func.coalesce(func.sum(getattr(PlanRow, name)), 0).label(name) for name in names]


def _matches(
    account_id: str, days: tuple[date, date], only: Mapping[str, str]
) -> list[ColumnElement[bool]]:
    # The previous release, which merges files beside this one, leaves the lines of a merged file.
    is_counted = or_(CallFile.replaced_at.is_(None), CallFile.purged_at.is_not(None))
    own = [getattr(PlanRow, name) == value for name, value in only.items()]
    return [PlanRow.account_id == account_id, PlanRow.day.between(*days), is_counted, *own]


def _values(row: Any) -> dict[str, Any]:
    """Return the sums of a row; PostgreSQL sums large integers as decimals."""
    sums: dict[str, Any] = {name: int(row[name]) for name in PlanSums.__struct_fields__[:-1]}
    return sums | {"value_usd": Decimal(row["value_usd"])}
