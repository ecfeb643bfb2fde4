"""The report link of each audit: its generation, when it was issued, and how often it was opened.

A link's signature covers the generation and the time of issue. Each mail and each press of Share
issues one of the same generation, so revoking ends them all, and so does renewing, which begins the
next generation. Links that earlier releases issued are of generation 0, without a row.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Index,
    case,
    func,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import Audit, Cursor
from service.models.base import Base, Executor, Owner, utc_now

SHOWN_LINKS: Final = 200
ACTIVE, EXPIRED, REVOKED = STATES = ("active", "expired", "revoked")


class ReportLink(Base):
    __tablename__ = "report_links"
    __table_args__ = (Index("ix_report_links_account", "account_id", "issued_at"),)

    audit_id: Mapped[str] = mapped_column(
        ForeignKey("audits.id", ondelete="CASCADE"), primary_key=True
    )
    account_id: Mapped[Owner]
    generation: Mapped[int] = mapped_column(default=0, server_default="0")
    issued_at: Mapped[datetime] = mapped_column(default=utc_now)
    revoked_at: Mapped[datetime | None]
    opens: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    last_opened_at: Mapped[datetime | None]

    def state(self, lasting_after: datetime) -> str:
        """Return whether the link works; links issued at or before this moment have expired."""
        if self.revoked_at is not None:
            return REVOKED
        return ACTIVE if self.issued_at > lasting_after else EXPIRED


class IssuedLink(NamedTuple):
    """What a link's token is signed from."""

    generation: int
    issued_at: datetime
    is_revoked: bool


def issue_link(connection: Executor, account_id: str, audit_id: str) -> IssuedLink:
    """Issue a link to the audit's report that lasts from now; links issued before keep their end.

    While they are revoked, so is this one, until its owner renews it. Callers commit.
    """
    row = {"audit_id": audit_id, "account_id": account_id, "issued_at": utc_now()}
    added = insert(ReportLink).values(row)
    again = case(
        (ReportLink.revoked_at.is_(None), added.excluded.issued_at), else_=ReportLink.issued_at
    )
    issued = added.on_conflict_do_update(index_elements=["audit_id"], set_={"issued_at": again})
    columns = (ReportLink.generation, ReportLink.issued_at, ReportLink.revoked_at.is_not(None))
    return IssuedLink(*connection.execute(issued.returning(*columns)).one())


def find_link(session: Session, audit_id: str) -> ReportLink | None:
    """Return the audit's link, if one was ever issued."""
    return session.get(ReportLink, audit_id, populate_existing=True)


def is_live_generation(session: Session, audit_id: str, generation: int) -> bool:
    """Check whether links of this generation are valid: neither revoked nor renewed."""
    columns = (ReportLink.generation, ReportLink.revoked_at)
    row = session.execute(select(*columns).where(ReportLink.audit_id == audit_id)).one_or_none()
    if row is None:
        return generation == 0
    return row.generation == generation and row.revoked_at is None


def count_open(session: Session, audit: Audit, issued_at: datetime) -> None:
    """Count that the audit's link was opened; add the row of a link that has none yet."""
    now = utc_now()
    row = {"audit_id": audit.id, "account_id": audit.account_id, "issued_at": issued_at}
    first = insert(ReportLink).values({**row, "opens": 1, "last_opened_at": now})
    again = {"opens": ReportLink.opens + 1, "last_opened_at": now}
    session.execute(first.on_conflict_do_update(index_elements=["audit_id"], set_=again))


class ListedLink(NamedTuple):
    """A report link and the audit that it leads to."""

    link: ReportLink
    created_at: datetime
    source: str


def list_links(
    session: Session, account_id: str, after: Cursor | None = None, limit: int = SHOWN_LINKS
) -> Sequence[ListedLink]:
    """Return the account's links, the latest issued first; ties are sorted by ID, descending."""
    query = (
        select(ReportLink, Audit.created_at, Audit.source)
        .join(Audit, Audit.id == ReportLink.audit_id)
        .where(ReportLink.account_id == account_id)
        .order_by(ReportLink.issued_at.desc(), ReportLink.audit_id.desc())
    )
    if after is not None:
        query = query.where(tuple_(ReportLink.issued_at, ReportLink.audit_id) < after)
    return [ListedLink(*row) for row in session.execute(query.limit(limit))]


def get_link(session: Session, audit_id: str) -> ReportLink:
    return session.scalars(select(ReportLink).where(ReportLink.audit_id == audit_id)).one()


def revoke_link(session: Session, account_id: str, audit_id: str) -> bool:
    """Revoke all links of one of the account's audits; return False if it has no such audit."""
    mine = select(Audit.id, Audit.account_id, func.now()).where(
        Audit.id == audit_id, Audit.account_id == account_id
    )
    names = ["audit_id", "account_id", "issued_at"]
    add = insert(ReportLink).from_select(names, mine).on_conflict_do_nothing()
    session.execute(add)
    named = (ReportLink.audit_id == audit_id, ReportLink.account_id == account_id)
    revoked_at = func.coalesce(ReportLink.revoked_at, func.now())
    ended = update(ReportLink).where(*named).values(revoked_at=revoked_at)
    return session.scalar(ended.returning(ReportLink.audit_id)) is not None


def revoke_all_links(session: Session, account_id: str) -> int:
    """Revoke every link of the account, those without a row too; return how many."""
    mine = select(Audit.id, Audit.account_id, func.now()).where(Audit.account_id == account_id)
    names = ["audit_id", "account_id", "issued_at"]
    session.execute(insert(ReportLink).from_select(names, mine).on_conflict_do_nothing())
    live = (ReportLink.account_id == account_id, ReportLink.revoked_at.is_(None))
    ended = update(ReportLink).where(*live).values(revoked_at=func.now())
    return len(session.scalars(ended.returning(ReportLink.audit_id)).all())


def renew_link(session: Session, account_id: str, audit_id: str) -> bool:
    """Issue a new link and end the one before; return False if the account has no such audit."""
    if not revoke_link(session, account_id, audit_id):
        return False
    new = {
        "generation": ReportLink.generation + 1,
        "issued_at": utc_now(),
        "revoked_at": None,
        "opens": 0,
        "last_opened_at": None,
    }
    session.execute(update(ReportLink).where(ReportLink.audit_id == audit_id).values(new))
    return True
