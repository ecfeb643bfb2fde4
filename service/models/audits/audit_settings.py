"""An account's assumptions and price terms, which apply to every later audit of the account."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row, func, or_, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from service.models.audits.audits import Audit
from service.models.base import Base, OwnerKey, utc_now
from service.models.identity.accounts import Account


class AuditSettings(Base):
    """The settings of one account; an account without a row has the defaults."""

    __tablename__ = "audit_settings"

    account_id: Mapped[OwnerKey]
    assumptions: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict, server_default="{}")
    price_terms: Mapped[str] = mapped_column(default="", server_default="")  # TOML
    # Of the terms as this release writes them; those of an earlier one are as they were typed.
    terms_md5: Mapped[str | None]
    terms_excluded: Mapped[int] = mapped_column(default=0, server_default="0")
    changed_at: Mapped[datetime] = mapped_column(default=utc_now)


@dataclass(frozen=True)
class Chosen:
    """What an account chose; never in a log, because rates are confidential."""

    assumptions: Mapping[str, float] = field(default_factory=dict, repr=False)
    price_terms: str = field(default="", repr=False)
    time_zone: str = ""  # by whose days spend is summed beside those in UTC

    @property
    def key(self) -> bytes:
        """Return a digest that equal settings have in common, however long their terms are."""
        chosen = (sorted(self.assumptions.items()), self.price_terms, self.time_zone)
        return sha256(repr(chosen).encode()).digest()


DEFAULTS: Final = Chosen()


def find_settings(session: Session, account_id: str) -> Chosen:
    """Return the account's settings, or the defaults."""
    query = select(AuditSettings).where(AuditSettings.account_id == account_id)
    row = session.scalars(query.execution_options(populate_existing=True)).one_or_none()
    return Chosen(row.assumptions, row.price_terms) if row else DEFAULTS


def save_assumptions(session: Session, account_id: str, values: Mapping[str, float]) -> None:
    """Replace the account's assumptions; a value that is not given has its default."""
    _save(session, account_id, {"assumptions": dict(values)})


def save_price_terms(session: Session, account_id: str, toml: str) -> None:
    """Replace the account's aliases and negotiated rates by a file that we have written."""
    written = {"price_terms": toml, "terms_md5": func.md5(toml), "terms_excluded": 0}
    _save(session, account_id, written)


def list_typed_terms(connection: Connection, limit: int) -> Sequence[Row[str, str]]:
    """Return accounts and their terms as they were typed, which an earlier release has stored."""
    is_other = AuditSettings.terms_md5.is_distinct_from(func.md5(AuditSettings.price_terms))
    query = select(AuditSettings.account_id, AuditSettings.price_terms)
    return connection.execute(
        query.where(AuditSettings.price_terms != "", is_other).limit(limit)
    ).all()


def rewrite_terms(
    connection: Connection, account_id: str, typed: str, written: str, excluded: int
) -> None:
    """Replace terms as they were typed by the same as we write them, unless they have changed."""
    same = (AuditSettings.account_id == account_id, AuditSettings.price_terms == typed)
    values = {"price_terms": written, "terms_md5": func.md5(written), "terms_excluded": excluded}
    connection.execute(update(AuditSettings).where(*same).values(values))


def count_excluded(session: Session, account_id: str) -> int:
    """Return how many of the account's prices couldn't be read when they were rewritten."""
    query = select(AuditSettings.terms_excluded).where(AuditSettings.account_id == account_id)
    return session.scalar(query) or 0


def list_chosen(connection: Connection, audit_ids: Sequence[str]) -> dict[str, Chosen]:
    """Return the settings of each audit's account by audit ID, if it has any."""
    query = select(Audit.id, *_CHOSEN).join(Account, Account.id == Audit.account_id)
    query = query.outerjoin(AuditSettings, AuditSettings.account_id == Account.id)
    has_any = or_(AuditSettings.account_id.is_not(None), Account.time_zone.is_not(None))
    rows = connection.execute(query.where(Audit.id.in_(audit_ids), has_any))
    return {row[0]: _choose(row[1:]) for row in rows}


def find_chosen(connection: Connection, account_id: str) -> Chosen:
    """Return the account's settings, or the defaults, outside a session."""
    query = select(*_CHOSEN).select_from(Account)
    query = query.outerjoin(AuditSettings, AuditSettings.account_id == Account.id)
    row = connection.execute(query.where(Account.id == account_id)).one_or_none()
    return _choose(row) if row else DEFAULTS


_CHOSEN: Final = (AuditSettings.assumptions, AuditSettings.price_terms, Account.time_zone)


def _choose(row: Any) -> Chosen:
    assumptions, price_terms, time_zone = row
    return Chosen(assumptions or {}, price_terms or "", time_zone or "")


def _save(session: Session, account_id: str, values: Mapping[str, Any]) -> None:
    new = {**values, "changed_at": utc_now()}
    statement = insert(AuditSettings).values(account_id=account_id, **new)
    session.execute(statement.on_conflict_do_update(index_elements=["account_id"], set_=new))
