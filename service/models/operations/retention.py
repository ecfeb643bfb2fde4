"""Delete expired rows, one batch per call, by the database's clock. Callers commit.

Payment events and admin actions are kept permanently; triggers on their tables ensure it.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from service.models.access.credentials import IngestKey, ReadToken
from service.models.access.oauth import TOKEN_SECONDS, OAuthCode
from service.models.audits.audits import DONE, FAILED, Audit
from service.models.identity.passkeys import PendingSignIn
from service.models.identity.security_events import SecurityEvent
from service.models.identity.sign_in import MagicLink, WebSession
from service.models.sending import Outgoing

BATCH: Final = 500
_SHOWN_EXPIRED_DAYS: Final = 30


def purge_old_raws(connection: Connection, done_days: int, failed_days: int) -> Sequence[str]:
    """Mark old raw uploads as purged; return the keys of blobs to delete after the commit."""
    is_old = and_(
        Audit.raw_purged_at.is_(None),
        or_(
            and_(Audit.status == DONE, Audit.finished_at < before(done_days)),
            and_(Audit.status == FAILED, Audit.finished_at < before(failed_days)),
        ),
    )
    oldest = select(Audit.id).where(is_old).order_by(Audit.finished_at).limit(BATCH)
    ids = connection.scalars(oldest).all()
    # Check the condition again, because an administrator may just have queued one for a rerun.
    purged = update(Audit).where(Audit.id.in_(ids), is_old).values(raw_purged_at=func.now())
    return connection.scalars(purged.returning(Audit.blob_key)).all()


def delete_expired_links(connection: Connection) -> int:
    """Delete expired sign-in links, and sign-ins that waited too long for a passkey."""
    _delete(connection, PendingSignIn, PendingSignIn.expires_at < func.now())
    return _delete(connection, MagicLink, MagicLink.expires_at < func.now())


def delete_ended_sessions(connection: Connection, idle_days: int) -> int:
    """Delete expired sessions and sessions idle for `idle_days`."""
    is_idle = WebSession.last_seen_at < before(idle_days)
    return _delete(connection, WebSession, or_(WebSession.expires_at < func.now(), is_idle))


def delete_ended_codes(connection: Connection) -> int:
    """Delete expired unused codes, and used codes once their tokens have expired."""
    is_unused = and_(OAuthCode.used_at.is_(None), OAuthCode.expires_at < func.now())
    is_spent = OAuthCode.used_at < func.now() - timedelta(seconds=TOKEN_SECONDS)
    return _delete(connection, OAuthCode, or_(is_unused, is_spent))


def delete_expired_secrets(connection: Connection) -> int:
    """Delete expired keys and tokens, after they were listed as expired for a while."""
    return sum(
        _delete(connection, table, table.expires_at < before(_SHOWN_EXPIRED_DAYS))
        for table in (IngestKey, ReadToken)
    )


def delete_sent(connection: Connection, table: type[Outgoing], days: int) -> int:
    """Delete old mails or notices that were sent or failed."""
    return _delete(connection, table, and_(~table.is_unsent(), table.queued_at < before(days)))


def delete_old_events(connection: Connection, days: int) -> int:
    return _delete(connection, SecurityEvent, SecurityEvent.occurred_at < before(days))


def _delete(connection: Connection, table: Any, is_over: ColumnElement[bool]) -> int:
    some = select(table.id).where(is_over).limit(BATCH)
    return connection.execute(delete(table).where(table.id.in_(some), is_over)).rowcount


def before(days: int) -> ColumnElement[Any]:
    """Return the time so many days ago."""
    return func.now() - timedelta(days=days)
