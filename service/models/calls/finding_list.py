"""The list of an account's findings, by state."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, func, select, tuple_
from sqlalchemy.orm import Session

from service.models.calls.account_findings import STATES, UNRESOLVED, AccountFinding

UNRESOLVED_NAME: Final = "unresolved"
# What a filter of the list may name, and the states that it shows.
FILTERS: Final = {
    UNRESOLVED_NAME: UNRESOLVED,
    **{state: (state,) for state in STATES},
    "all": STATES,
}


class FindingCursor(NamedTuple):
    """The finding after which a list continues."""

    monthly_usd: Decimal
    id: str


def list_account_findings(
    session: Session,
    account_id: str,
    states: Sequence[str],
    limit: int,
    after: FindingCursor | None = None,
) -> Sequence[AccountFinding]:
    """Return findings of an account, most savings first; ties are sorted by ID."""
    query = select(AccountFinding).where(
        AccountFinding.account_id == account_id, AccountFinding.state.in_(states)
    )
    position = tuple_(-AccountFinding.monthly_usd, AccountFinding.id)
    if after is not None:
        query = query.where(position > (-after.monthly_usd, after.id))
    order = (AccountFinding.monthly_usd.desc(), AccountFinding.id)
    return session.scalars(query.order_by(*order).limit(limit)).all()


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


def count_by_state(session: Session, account_id: str) -> dict[str, int]:
    """Count the account's findings in each state."""
    query = select(AccountFinding.state, func.count()).where(
        AccountFinding.account_id == account_id
    )
    rows = session.execute(query.group_by(AccountFinding.state))
    return {row[0]: row[1] for row in rows}
