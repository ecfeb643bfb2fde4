"""The list of an account's findings, by state and labels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import Session

from service.models.calls.account_findings import STATES, UNRESOLVED, AccountFinding

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
_BATCH: Final = 500


class FindingCursor(NamedTuple):
    """The finding after which a list continues."""

    monthly_usd: Decimal
    id: str


@dataclass(frozen=True, kw_only=True)
class FindingFilter:
    """The name of some states, and the values that other columns must have."""

    state: str = UNRESOLVED_NAME
    only: Mapping[str, str] = field(default_factory=dict)

    def matches(self, account_id: str) -> list[ColumnElement[bool]]:
        own = [_matches(name, value) for name, value in self.only.items()]
        states = AccountFinding.state.in_(FILTERS[self.state])
        return [AccountFinding.account_id == account_id, states, *own]


def list_account_findings(
    session: Session,
    account_id: str,
    wanted: FindingFilter,
    limit: int,
    after: FindingCursor | None = None,
) -> Sequence[AccountFinding]:
    """Return findings of an account, most savings first; ties are sorted by ID."""
    return session.scalars(_most_savings(account_id, wanted, limit, after)).all()


def list_finding_columns(
    session: Session,
    account_id: str,
    wanted: FindingFilter,
    limit: int,
    after: FindingCursor | None = None,
) -> Sequence[Mapping[str, Any]]:
    """Return the same findings as their columns, which takes less time than as objects."""
    query = _most_savings(account_id, wanted, limit, after).with_only_columns(*_COLUMNS)
    result = session.connection().execute(query)
    names = list(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result.all()]


def _most_savings(
    account_id: str, wanted: FindingFilter, limit: int, after: FindingCursor | None
) -> Select[AccountFinding]:
    query = select(AccountFinding).where(*wanted.matches(account_id))
    position = tuple_(-AccountFinding.monthly_usd, AccountFinding.id)
    if after is not None:
        query = query.where(position > (-after.monthly_usd, after.id))
    order = (AccountFinding.monthly_usd.desc(), AccountFinding.id)
    return query.order_by(*order).limit(limit)


def list_findings_of(
    session: Session, account_id: str, only: Mapping[str, str], limit: int
) -> Sequence[AccountFinding]:
    """Return the findings of a route or a model in every state, most savings first.

    `only` has values of `route`, `provider` and `model`, as spend is filtered by them.
    """
    query = select(AccountFinding).where(AccountFinding.account_id == account_id)
    matches = [_matches(name, value) for name, value in only.items()]
    order = (AccountFinding.monthly_usd.desc(), AccountFinding.id)
    return session.scalars(query.where(*matches).order_by(*order).limit(limit)).all()


def _matches(name: str, value: str) -> ColumnElement[bool]:
    """Match a finding by its label; without tag and endpoint, its route is its model."""
    if name == "route" and not value:
        return AccountFinding.route == AccountFinding.model
    column: ColumnElement[str] = getattr(AccountFinding, name)
    return column == value


def iter_account_findings(
    session: Session, account_id: str, wanted: FindingFilter
) -> Iterator[Sequence[AccountFinding]]:
    """Yield all findings in batches, in the same order."""
    after = None
    while batch := list_account_findings(session, account_id, wanted, _BATCH, after):
        yield batch
        after = FindingCursor(batch[-1].monthly_usd, batch[-1].id)
        session.expunge_all()


def has_more_findings(
    session: Session, account_id: str, wanted: FindingFilter, number: int
) -> bool:
    """Check whether the filter shows more findings than this number."""
    some = select(AccountFinding.id).where(*wanted.matches(account_id)).limit(number + 1)
    return (session.scalar(select(func.count()).select_from(some.subquery())) or 0) > number


def count_by_state(session: Session, account_id: str) -> dict[str, int]:
    """Count the account's findings in each state."""
    query = select(AccountFinding.state, func.count()).where(
        AccountFinding.account_id == account_id
    )
    rows = session.execute(query.group_by(AccountFinding.state))
    return {row[0]: row[1] for row in rows}


def list_values(session: Session, account_id: str, key: str) -> Sequence[str]:
    """Return the values of a key that the account's findings have, most savings first."""
    column = getattr(AccountFinding, key)
    query = select(column).where(AccountFinding.account_id == account_id, column != "")
    order = (func.sum(AccountFinding.monthly_usd).desc(), column)
    return session.scalars(query.group_by(column).order_by(*order).limit(_MOST_VALUES)).all()
