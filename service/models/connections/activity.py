"""What people did with a coding agent, as its provider reports it: sums of some days."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from sqlalchemy import and_, func, select

from service.models.base import Executor
from service.models.connections.reported import PERSON, ReportedActivity, ReportedName

_WORK: Final = (
    *("sessions", "lines_added", "lines_removed", "commits", "pull_requests"),
    *("accepted", "rejected"),
)
_TOKENS: Final = ("prompt_tokens", "completion_tokens", "estimated_usd")


def sum_by_person(
    session: Executor, account_id: str, connection_id: str, since: date, limit: int
) -> Sequence[Any]:
    """Return what each person did since a day, with the name if it is kept, most dollars first."""
    table = ReportedActivity
    sums = [func.sum(getattr(table, name)).label(name) for name in (*_WORK, *_TOKENS)]
    days = func.count(table.day.distinct()).label("days")
    named = and_(
        ReportedName.connection_id == table.connection_id,
        ReportedName.kind == PERSON,
        ReportedName.name_id == table.person_id,
    )
    query = select(table.person_id, ReportedName.name, days, *sums)
    query = query.outerjoin(ReportedName, named).where(*_mine(account_id, connection_id, since))
    query = query.group_by(table.person_id, ReportedName.name)
    by_usd = func.sum(table.estimated_usd).desc()
    return session.execute(query.order_by(by_usd, table.person_id).limit(limit)).all()


def sum_by_model(
    session: Executor, account_id: str, connection_id: str, since: date, limit: int
) -> Sequence[Any]:
    """Return the tokens of each model and plan since a day, most dollars first."""
    table = ReportedActivity
    sums = [func.sum(getattr(table, name)).label(name) for name in (*_TOKENS, "cached_tokens")]
    people = func.count(table.person_id.distinct()).label("people")
    query = select(table.model, table.plan, people, *sums).where(table.model != "")
    query = query.where(*_mine(account_id, connection_id, since)).group_by(table.model, table.plan)
    by_usd = func.sum(table.estimated_usd).desc()
    return session.execute(query.order_by(by_usd, table.model).limit(limit)).all()


def _mine(account_id: str, connection_id: str, since: date) -> Sequence[Any]:
    table = ReportedActivity
    own = (table.account_id == account_id, table.connection_id == connection_id)
    return (*own, table.day >= since)
