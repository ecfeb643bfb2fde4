"""Connections: an organization's admin key at a provider, and where its pulls stand.

A pull is claimed like an audit's attempt: a lease and a token in the row, and the database's times.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from hmac import compare_digest
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import (
    ColumnElement,
    Connection,
    Index,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.core.sealing import SealedText
from service.models.base import Base, Executor, Owned, from_now, utc_now
from service.models.connections.reported import find_project_ids
from service.models.identity.accounts import Account

MAX_CONNECTIONS: Final = 20  # per account
BY_HAND: Final = "by_hand"  # in what a connection sees
APART: Final = "apart"  # there, too: the connections that are another organization's
# Of a large organization's projects, some are enough to know it again.
MOST_IDS: Final = 200
# Longer than a job that hangs, so that no two pull the same.
LEASE_SECONDS: Final = 180.0
_FIRST_PAUSE_SECONDS: Final = 30.0
_LONGEST_PAUSE_SECONDS: Final = 3_600.0
_NO_LEASE: Final = {"lease_token": None, "lease_expires_at": None}
_CLEARED: Final = {"failures": 0, "failing_since": None, "error": None, "mailed_at": None}


class ProviderConnection(Owned, Base):
    """A connection without a key pulls nothing anymore, and keeps what was pulled."""

    __tablename__ = "provider_connections"
    __table_args__ = (Index("ix_provider_connections_next_pull_at", "next_pull_at"),)

    provider: Mapped[str]
    label: Mapped[str] = mapped_column(default="", server_default="")
    key: Mapped[str] = mapped_column(SealedText("provider_connections.key"), default="")
    organization: Mapped[str] = mapped_column(default="", server_default="")
    sight: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict, server_default="{}")
    keeps_names: Mapped[bool] = mapped_column(default=True)
    shows_people: Mapped[bool] = mapped_column(default=False, server_default=false())
    created_at: Mapped[datetime] = mapped_column(default=utc_now)
    key_changed_at: Mapped[datetime] = mapped_column(default=utc_now)
    removed_at: Mapped[datetime | None]
    # By report: the first day that was pulled, when it was pulled last, and rechecks of months.
    progress: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict, server_default="{}")
    pulled_at: Mapped[datetime | None]
    next_pull_at: Mapped[datetime | None] = mapped_column(default=func.now())
    failures: Mapped[int] = mapped_column(default=0, server_default="0")  # in a row
    failing_since: Mapped[datetime | None]
    error: Mapped[str | None]
    mailed_at: Mapped[datetime | None]  # about this failure
    filled_at: Mapped[datetime | None]  # when the account's spend was compared with the reports
    lease_token: Mapped[str | None]
    lease_expires_at: Mapped[datetime | None]

    @property
    def is_active(self) -> bool:
        return self.removed_at is None and not self.is_by_hand

    @property
    def is_by_hand(self) -> bool:
        """Check for the reports of a provider that were uploaded: there is nothing to pull."""
        return BY_HAND in self.sight


class ConnectionLimitError(Exception):
    """The account has as many connections as it may have."""


class SameOrganizationError(Exception):
    """The organization is connected already; all of its usage would count twice."""

    def __init__(self, connection: "ProviderConnection") -> None:
        super().__init__()
        self.connection = connection


class OtherOrganizationError(Exception):
    """The key is another organization's than that whose reports the connection has."""


class UnknownOrganizationError(Exception):
    """A file doesn't say its organization, and the account has files of several."""


class LostConnectionError(Exception):
    """Another worker has the connection, or it was removed or given another key."""


def add_connection(session: Session, connection: ProviderConnection) -> None:
    # The lock makes the checks and the insert one step.
    owner = connection.account_id
    session.execute(select(Account.id).where(Account.id == owner).with_for_update())
    known = list_connections(session, owner)
    if len(known) >= MAX_CONNECTIONS:
        raise ConnectionLimitError
    _refuse_same(session, known, connection, connection.key, connection.sight)
    session.add(connection)
    session.flush()


def _refuse_same(
    session: Session,
    known: Sequence[ProviderConnection],
    connection: ProviderConnection,
    key: str,
    sight: Mapping[str, Any],
) -> None:
    identity = set(sight.get("identity", ()))
    for each in known:
        is_other = each is not connection and each.provider == connection.provider
        # Of what was pulled and uploaded for a day, only the first counts.
        if not is_other or each.is_by_hand:
            continue
        # Some keys show no ID.
        has_key = bool(key) and compare_digest(each.key.encode(), key.encode())
        if has_key or identity & _identify(session, each):
            raise SameOrganizationError(each)


def _identify(session: Session, connection: ProviderConnection) -> set[str]:
    """Return IDs that no other organization has.

    A connection of an earlier release doesn't have them; its projects do as well.
    """
    found = set(connection.sight.get("identity", ()))
    return found or find_project_ids(session, connection.id)


def list_connections(session: Executor, account_id: str) -> Sequence[Any]:
    query = select(ProviderConnection).where(_owned_by(account_id))
    found = query.order_by(ProviderConnection.created_at, ProviderConnection.id)
    if isinstance(session, Session):
        return session.scalars(found).all()
    return session.execute(found).all()


def find_by_hand(
    session: Session, account_id: str, provider: str, organization: str, projects: Collection[str]
) -> ProviderConnection:
    """Return the account's uploaded reports of a provider's organization, which may be the first.

    Some files don't say their organization. They are of the only one, or of the one that has their
    projects.
    """
    session.execute(select(Account.id).where(Account.id == account_id).with_for_update())
    theirs = (_owned_by(account_id), ProviderConnection.provider == provider)
    query = select(ProviderConnection).where(*theirs, ProviderConnection.sight.has_key(BY_HAND))
    known = list(session.scalars(query.order_by(ProviderConnection.created_at)))
    if organization:
        same = [each for each in known if each.organization in ("", organization)]
    else:
        same = known
        if len(known) > 1:
            same = [each for each in known if find_project_ids(session, each.id) & {*projects}]
        if known and len(same) != 1:
            raise UnknownOrganizationError
    if not same:
        found = ProviderConnection(account_id=account_id, provider=provider, sight={BY_HAND: True})
        add_connection(session, found)
    else:  # the one that has the name, before one without
        found = max(same, key=lambda each: each.organization)
    found.organization = organization or found.organization
    found.sight = {**found.sight, BY_HAND: True, "organization": found.organization}
    return found


def keep_apart(session: Session, account_id: str, provider: str) -> None:
    """Note of uploaded reports which connections are another organization's for certain.

    What these pull replaces nothing of them. Some files and keys don't say their organization, and
    the same money must not count twice: where it isn't certain, it is the same one.
    """
    known = [each for each in list_connections(session, account_id) if each.provider == provider]
    pulled = {each.id: each for each in known if not each.is_by_hand}
    identities = {id: set(each.sight.get("identity", ())) for id, each in pulled.items()}
    for each in known:
        projects = find_project_ids(session, each.id) if each.is_by_hand and pulled else set()
        own = {_shorten(id) for id in (each.organization, *projects)}
        apart = [
            id
            for id, ids in identities.items()
            if each.organization and projects and 0 < len(ids) < MOST_IDS
            if not own & {_shorten(id) for id in (*ids, *find_project_ids(session, id))}
        ]
        if each.is_by_hand:
            each.sight = {**each.sight, APART: apart}
    session.flush()


def _shorten(text: str) -> str:
    """Return an ID as both a file and a key may have it: "/subscriptions/1A_2" is 1a-2."""
    return text.rpartition("/")[2].lower().replace("_", "-")


def find_connection(
    session: Session, account_id: str, connection_id: str
) -> ProviderConnection | None:
    return session.scalars(
        select(ProviderConnection).where(_is(account_id, connection_id))
    ).one_or_none()


def replace_key(
    session: Session, connection: ProviderConnection, key: str, sight: dict[str, Any]
) -> None:
    """Use another key of the same organization from now on.

    A pull with the old one can store nothing anymore.
    """
    before = _identify(session, connection)
    if before and sight["identity"] and not before & set(sight["identity"]):
        raise OtherOrganizationError
    known = list_connections(session, connection.account_id)
    _refuse_same(session, known, connection, key, sight)
    connection.sight, connection.organization = sight, sight["organization"]
    connection.key, connection.key_changed_at = key, utc_now()
    connection.removed_at = connection.error = connection.failing_since = None
    connection.mailed_at = connection.lease_token = connection.lease_expires_at = None
    connection.failures, connection.next_pull_at = 0, utc_now()


def remove_connection(session: Session, account_id: str, connection_id: str, *, keep: bool) -> bool:
    """Forget a connection's key and, unless told to keep it, everything that it has pulled.

    Return False if the account has no such connection.
    """
    if not keep:
        removed = delete(ProviderConnection).where(_is(account_id, connection_id))
        return session.scalar(removed.returning(ProviderConnection.id)) is not None
    values: dict[str, Any] = {"key": "", "removed_at": func.now(), "next_pull_at": None}
    values |= {"error": None, "failing_since": None, "failures": 0, **_NO_LEASE}
    changed = update(ProviderConnection).where(_is(account_id, connection_id)).values(values)
    return session.scalar(changed.returning(ProviderConnection.id)) is not None


def compare_soon(session: Session, account_id: str, provider: str) -> bool:
    """Let the account's connections of a provider be due, and compare all of its spend again.

    Return False if there is none.
    """
    theirs = (_owned_by(account_id), ProviderConnection.provider == provider)
    due = {"next_pull_at": func.now(), "filled_at": None}
    changed = update(ProviderConnection).where(*theirs).values(due)
    return bool(session.scalars(changed.returning(ProviderConnection.id)).all())


def is_settled(connection: Connection, held: ProviderConnection) -> bool:
    """Check whether no other connection to the same provider has something left to pull.

    One that fails isn't waited for.
    """
    others = (
        _owned_by(held.account_id),
        ProviderConnection.provider == held.provider,
        ProviderConnection.id != held.id,
        ProviderConnection.failing_since.is_(None),
        ProviderConnection.next_pull_at <= func.now(),
    )
    return connection.scalar(select(exists().where(*others))) is False


def pull_soon(connection: ProviderConnection, pause_seconds: float) -> None:
    """Pull everything recent again, but not sooner after the last pull than the provider wants."""
    pause = timedelta(seconds=pause_seconds)
    last = connection.pulled_at
    connection.next_pull_at = max(utc_now(), last + pause) if last else utc_now()
    connection.progress = {
        report: {name: value for name, value in state.items() if name != "at"}
        for report, state in connection.progress.items()
    }


def list_due_connections(connection: Connection, limit: int) -> Sequence[str]:
    """Return connections whose next pull is due and that no worker has, longest due first."""
    due = select(ProviderConnection.id).where(_is_due())
    return connection.scalars(due.order_by(ProviderConnection.next_pull_at).limit(limit)).all()


def claim_connection(connection: Connection, connection_id: str) -> ProviderConnection | None:
    """Claim a connection that is due, for one job."""
    lease = {"lease_token": uuid4().hex, "lease_expires_at": from_now(LEASE_SECONDS)}
    claimed = update(ProviderConnection).where(ProviderConnection.id == connection_id, _is_due())
    with Session(connection, join_transaction_mode="rollback_only") as session:
        unsynchronized = {"synchronize_session": False}
        return session.scalars(
            claimed.values(lease).returning(ProviderConnection), execution_options=unsynchronized
        ).one_or_none()


def hold(connection: Connection, held: ProviderConnection, **values: Any) -> None:
    """Keep the claim for as long again; raise `LostConnectionError` if another has it."""
    mine = (ProviderConnection.id == held.id, ProviderConnection.lease_token == held.lease_token)
    kept = {"lease_expires_at": from_now(LEASE_SECONDS), **values}
    if connection.execute(update(ProviderConnection).where(*mine).values(kept)).rowcount == 0:
        raise LostConnectionError


def release(
    connection: Connection, held: ProviderConnection, next_pull_at: datetime | None
) -> None:
    """End a pull that went well."""
    hold(
        connection,
        held,
        **{**_NO_LEASE, **_CLEARED, "pulled_at": func.now(), "next_pull_at": next_pull_at},
    )


def release_compared(
    connection: Connection, held: ProviderConnection, next_pull_at: datetime | None
) -> None:
    """End a job that asked the provider nothing.

    What became due meanwhile, such as by an upload, stays so.
    """
    due = ProviderConnection.next_pull_at
    values: dict[str, Any] = {
        "next_pull_at": case((due == held.next_pull_at, next_pull_at), else_=due)
    }
    if not held.is_active:  # nothing but this job can fail
        values |= _CLEARED
    hold(connection, held, **{**_NO_LEASE, **values})


def release_failed(
    connection: Connection, held: ProviderConnection, error: str, seconds: float = 0.0
) -> None:
    """End a pull that failed; the next waits longer after each failure in a row."""
    growing = _FIRST_PAUSE_SECONDS * 2 ** min(held.failures, 10)
    pause = max(seconds, min(growing, _LONGEST_PAUSE_SECONDS))
    since = func.coalesce(ProviderConnection.failing_since, func.now())
    failed = {"failures": held.failures + 1, "failing_since": since, "error": error}
    hold(connection, held, **{**_NO_LEASE, **failed, "next_pull_at": from_now(pause)})


def list_failing(connection: Connection, limit: int) -> Sequence[Any]:
    """Return connections that have failed for a day, and of which no mail was sent."""
    query = select(
        ProviderConnection.id,
        ProviderConnection.account_id,
        ProviderConnection.provider,
        ProviderConnection.label,
        ProviderConnection.organization,
        ProviderConnection.error,
        ProviderConnection.failing_since,
        Account.email,
    ).join(Account, Account.id == ProviderConnection.account_id)
    late = ProviderConnection.failing_since < func.now() - timedelta(days=1)
    waiting = (
        late,
        ProviderConnection.mailed_at.is_(None),
        ProviderConnection.removed_at.is_(None),
    )
    return connection.execute(query.where(*waiting).limit(limit)).all()


def mark_mailed(connection: Connection, connection_id: str) -> None:
    row = update(ProviderConnection).where(ProviderConnection.id == connection_id)
    connection.execute(row.values(mailed_at=func.now()))


def count_by_state(connection: Connection) -> Mapping[tuple[str, str], int]:
    """Count the connections by provider, and by why they fail: "" for those that work."""
    state = func.coalesce(ProviderConnection.error, "")
    query = select(ProviderConnection.provider, state, func.count())
    is_pulled = ~ProviderConnection.sight.has_key(BY_HAND)
    alive = query.where(ProviderConnection.removed_at.is_(None), is_pulled)
    rows = connection.execute(alive.group_by(ProviderConnection.provider, state))
    return {(row[0], row[1]): row[2] for row in rows}


def _is_due() -> ColumnElement[bool]:
    is_free = or_(
        ProviderConnection.lease_token.is_(None), ProviderConnection.lease_expires_at < func.now()
    )
    return and_(ProviderConnection.next_pull_at <= func.now(), is_free)


def _owned_by(account_id: str) -> ColumnElement[bool]:
    return ProviderConnection.account_id == account_id


def _is(account_id: str, connection_id: str) -> ColumnElement[bool]:
    return and_(_owned_by(account_id), ProviderConnection.id == connection_id)
