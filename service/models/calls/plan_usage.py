"""Queries of an account's calls that a plan includes: their value, which is no spend."""

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, or_, select
from sqlalchemy.orm import Session

from detectors.contract import PlanModel, PlanSums
from service.models.calls.call_files import CallFile
from service.models.calls.daily_spend import PlanRow

MOST_MODELS: Final = 20


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
